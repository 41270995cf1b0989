// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/state/checkpoint.h"

#include <fmt/format.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <functional>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/files/whole_file.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "rueda/torch/state/objects.h"
#include "rueda/torch/state/parameter_groups.h"

namespace rueda {
namespace {

// The file is there whole or not at all, whatever happens meanwhile.
void write_file(const std::string& path, const std::string& bytes) {
  WholeFile file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

std::vector<std::string> describe(const std::string& path, const NamedStates& things) {
  std::vector<std::string> lines{fmt::format("the path '{}'", path)};
  for (const auto& [name, thing] : things) lines.push_back(fmt::format("'{}' {}", name, thing.describe()));
  return lines;
}

// Names the operation `what` on this rank and its peers, which use the same name for it.
std::string agreed_name(const char* what, const std::vector<std::string>& lines, const Scope& scope) {
  check_members(scope.rank_at(0), scope, what);
  std::string name = scope.runtime().next_name(what, scope.process_set());
  check_agreement(name, what, lines, scope);
  return name;
}

void save_bytes(const std::string& path, const std::function<std::string()>& make, const std::string& name,
                const Scope& scope) {
  const bool writes = scope.runtime().topology().rank == scope.rank_at(0);
  all_use(
      [&] {
        if (writes) write_file(path, make());
      },
      name, "save", scope);
}

void load_bytes(const std::string& path, const std::function<void(const std::string&)>& use,
                const std::string& name, const Scope& scope) {
  const std::string subject = fmt::format("load '{}'", path);
  const std::string bytes =
      broadcast_made([&] { return read_file(path); }, scope.rank_at(0), name, subject, scope);
  all_use([&] { use(bytes); }, name + ".use", subject, scope);
}

}  // namespace

void save(const std::string& path, const NamedStates& things, const Scope& scope) {
  const std::string name = agreed_name("save", describe(path, things), scope);
  const auto make = [&] {
    torch::serialize::OutputArchive archive;
    for (const auto& [key, thing] : things) {
      torch::serialize::OutputArchive part(archive.compilation_unit());
      thing.save(part);
      archive.write(key, part);
    }
    return to_bytes(archive);
  };
  save_bytes(path, make, name, scope);
}

void load(const std::string& path, const NamedStates& things, const Scope& scope,
          const LoadOptions& options) {
  const std::string name = agreed_name("load", describe(path, things), scope);
  const auto use = [&](const std::string& bytes) {
    torch::serialize::InputArchive archive;
    std::optional<at::Device> read_for;
    for (const auto& [key, thing] : things) {
      if (read_for != thing.device()) {
        read_for = thing.device();
        archive = read_archive(bytes, *read_for, options);
      }
      torch::serialize::InputArchive part;
      if (!archive.try_read(key, part)) refuse(fmt::format("there is no '{}' in the file", key));
      const std::string failure = failure_of([&] { thing.load(part); });
      if (!failure.empty()) refuse(fmt::format("'{}': {}", key, failure));
    }
  };
  load_bytes(path, use, name, scope);
}

void save(const std::string& path, const Stateful& thing, const Scope& scope) {
  const std::string name = agreed_name("save", describe(path, {{"", thing}}), scope);
  save_bytes(
      path, [&] { return to_bytes(thing); }, name, scope);
}

void load(const std::string& path, const Stateful& thing, const Scope& scope, const LoadOptions& options) {
  const std::string name = agreed_name("load", describe(path, {{"", thing}}), scope);
  load_bytes(
      path, [&](const std::string& bytes) { from_bytes(bytes, thing, options); }, name, scope);
}

void save_part(const std::string& path, const torch::optim::Optimizer& optimizer) {
  const std::string failure = failure_of([&] {
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    write_file(path, to_bytes(archive));
  });
  if (!failure.empty()) refuse(fmt::format("save_part '{}': {}", path, failure));
}

void load_part(const std::string& path, torch::optim::Optimizer& optimizer, const LoadOptions& options) {
  const std::string failure = failure_of([&] {
    const std::vector<at::Tensor> parameters = parameters_of(optimizer.param_groups());
    const at::Device device = parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
    torch::serialize::InputArchive archive = read_archive(read_file(path), device, options);
    optimizer.load(archive);
  });
  if (!failure.empty()) refuse(fmt::format("load_part '{}': {}", path, failure));
}

}  // namespace rueda
