// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/state/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "rueda/torch/state/objects.h"

namespace rueda {
namespace {

[[noreturn]] void refuse_file(const std::string& what, const std::string& path) {
  refuse(fmt::format("{} '{}': {}", what, path, std::strerror(errno)));
}

// Purpose: an open file, closed with the object.
class File {
 public:
  File(const std::string& path, int flags) : path_(path), descriptor_(::open(path.c_str(), flags, 0666)) {
    if (descriptor_ < 0) refuse_file("cannot open", path_);
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) refuse_file("cannot write", path_);
      if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  std::string read_all() const {
    std::string bytes;
    for (std::size_t filled = 0;;) {
      bytes.resize(filled + kPiece);
      const ssize_t more = ::read(descriptor_, bytes.data() + filled, kPiece);
      if (more < 0 && errno != EINTR) refuse_file("cannot read", path_);
      if (more > 0) filled += static_cast<std::size_t>(more);
      if (more != 0) continue;
      bytes.resize(filled);
      return bytes;
    }
  }
  void to_disk() const {
    if (fsync(descriptor_) != 0) refuse_file("cannot write", path_);
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;

  std::string path_;
  int descriptor_;
};

// The file is there whole or not at all, whatever happens meanwhile.
void write_file(const std::string& path, const std::string& bytes) {
  const std::string partial = path + ".partial";
  try {
    {
      const File file(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
      file.write_all(bytes);
      file.to_disk();
    }
    if (rename(partial.c_str(), path.c_str()) != 0) refuse_file("cannot write", path);
  } catch (...) {
    unlink(partial.c_str());
    throw;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  File(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC).to_disk();  // its new entry
}

std::vector<std::string> describe(const std::string& path, const NamedStates& things) {
  std::vector<std::string> lines{fmt::format("the path '{}'", path)};
  for (const auto& [name, thing] : things) lines.push_back(fmt::format("'{}' {}", name, thing.describe()));
  return lines;
}

// Names the operation `what` on this rank and its peers, which mean the same by it.
std::string agreed_name(const char* what, const std::vector<std::string>& lines, const Scope& scope) {
  check_place(scope.rank_at(0), scope, what);
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
  const std::string bytes = broadcast_made([&] { return File(path, O_RDONLY | O_CLOEXEC).read_all(); },
                                           scope.rank_at(0), name, subject, scope);
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

void load(const std::string& path, const NamedStates& things, const Scope& scope) {
  const std::string name = agreed_name("load", describe(path, things), scope);
  const auto use = [&](const std::string& bytes) {
    torch::serialize::InputArchive archive;
    std::optional<at::Device> read_for;
    for (const auto& [key, thing] : things) {
      if (read_for != thing.device()) {
        read_for = thing.device();
        archive.load_from(bytes.data(), bytes.size(), read_for);
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

void load(const std::string& path, const Stateful& thing, const Scope& scope) {
  const std::string name = agreed_name("load", describe(path, {{"", thing}}), scope);
  load_bytes(
      path, [&](const std::string& bytes) { from_bytes(bytes, thing); }, name, scope);
}

}  // namespace rueda
