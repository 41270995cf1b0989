// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/parameters.h"

#include <fmt/format.h>
#include <torch/csrc/api/include/torch/ordered_dict.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <sstream>
#include <unordered_map>

#include "frameworks/torch/agreement.h"
#include "frameworks/torch/operations.h"
#include "frameworks/torch/sharded_optimizer.h"
#include "frameworks/torch/tensor_adapter.h"

namespace rueda {
namespace {

void check_place(Rank root, const Scope& scope, const char* what) {
  const RankSet ranks = scope.ranks() ? *scope.ranks() : RankSet(0, scope.size());
  const Rank rank = scope.runtime().topology().rank;
  if (!ranks.contains(rank))
    refuse(fmt::format("rank {}: {} among {}, of which this rank is none", rank, what, to_string(ranks)));
  if (!ranks.contains(root))
    refuse(fmt::format("rank {}: {} from rank {}; it must be one of {}", rank, what, root, to_string(ranks)));
}

// What broadcast_parameters does with one tensor, in words that all ranks must agree on.
struct Part {
  std::string line;
  bool moves = false;  // not for a buffer that is undefined, and a tied weight only once
};

std::vector<Part> parts_of(const std::vector<std::pair<std::string, at::Tensor>>& named) {
  std::unordered_map<const void*, std::string> seen;
  std::vector<Part> parts;
  for (const auto& [name, tensor] : named) {
    if (!tensor.defined()) {
      parts.push_back({fmt::format("'{}' undefined", name)});
    } else if (auto [first, added] = seen.try_emplace(tensor.unsafeGetTensorImpl(), name); !added) {
      parts.push_back({fmt::format("'{}' the same as '{}'", name, first->second)});
    } else {
      const TensorView view = write_view(tensor, name);
      parts.push_back({fmt::format("'{}' {} {}", name, to_string(view.dtype), to_string(view.shape)), true});
    }
  }
  return parts;
}

std::string save_state(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return std::move(stream).str();
}

void load_state(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size());
  optimizer.state().clear();  // load adds to what is there
  optimizer.load(archive);
}

template <class T>
void broadcast_values(std::span<T> values, Rank root, const std::string& name, const Scope& scope) {
  const TensorView both = view(values);
  broadcast_async(name, both, both, root, scope).wait();
}

}  // namespace

void broadcast_parameters(const std::vector<std::pair<std::string, at::Tensor>>& named, Rank root,
                          const Scope& scope) {
  check_place(root, scope, "broadcast_parameters");
  const std::vector<Part> parts = parts_of(named);
  std::vector<std::string> lines;
  for (const Part& part : parts) lines.push_back(part.line);
  const std::string prefix = scope.runtime().next_name("broadcast_parameters", scope.process_set());
  check_agreement(prefix, "broadcast_parameters", lines, scope);
  std::vector<TensorHandle> handles;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (!parts[i].moves) continue;
    const std::string name =
        fmt::format("{}.{}.{}", prefix, i, named[i].first);  // by number too: names may repeat
    handles.push_back(broadcast_async_(named[i].second, root, name, scope));
  }
  for (const TensorHandle& handle : handles) handle.wait();
}

void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& named, Rank root,
                          const Scope& scope) {
  broadcast_parameters(named.pairs(), root, scope);
}

void broadcast_parameters(const torch::nn::Module& model, Rank root, const Scope& scope) {
  auto named = model.named_parameters();
  named.update(model.named_buffers());
  broadcast_parameters(named, root, scope);
}

void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, Rank root, const Scope& scope) {
  check_place(root, scope, "broadcast_optimizer_state");
  const Rank rank = scope.runtime().topology().rank;
  if (dynamic_cast<const Sharded*>(&optimizer) != nullptr) {
    throw InvalidArgument(Status::invalid_argument(fmt::format(
        "rank {}: broadcast_optimizer_state of a ShardedOptimizer: each rank has a part of its own. Each "
        "rank saves and loads its part.",
        rank)));
  }
  const bool is_root = rank == root;
  std::vector<std::string> lines;
  for (const auto& group : optimizer.param_groups()) {
    lines.push_back(fmt::format("group {} of {} parameters", lines.size(), group.params().size()));
  }
  const std::string prefix = scope.runtime().next_name("broadcast_optimizer_state", scope.process_set());
  check_agreement(prefix, "broadcast_optimizer_state", lines, scope);

  constexpr std::int64_t kFailed = -1;
  std::string bytes;
  std::string reason;
  if (is_root) {
    try {
      bytes = save_state(optimizer);
    } catch (const std::exception& error) {
      reason = error.what();
    }
  }
  std::vector<std::int64_t> size{reason.empty() ? static_cast<std::int64_t>(bytes.size()) : kFailed};
  broadcast_values(std::span(size), root, prefix + ".size", scope);
  if (size.front() == kFailed) {
    throw InvalidArgument(Status::invalid_argument(
        fmt::format("broadcast_optimizer_state: the optimizer on rank {} cannot be saved{}{}; see there",
                    root, reason.empty() ? "" : ": ", reason)));
  }
  bytes.resize(static_cast<std::size_t>(size.front()));
  broadcast_values(std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()), root,
                   prefix + ".bytes", scope);
  if (!is_root) load_state(optimizer, bytes);
}

}  // namespace rueda
