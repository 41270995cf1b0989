// SPDX-License-Identifier: Apache-2.0
#include "core/base/files/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <system_error>

namespace rueda {
namespace {

std::filesystem::path hidden_beside(const std::filesystem::path& place) {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number)))
    throw std::runtime_error("the system gives no random numbers for the name of a new file");
  constexpr std::size_t kLongestPart = 200;  // of a name; with what is added a folder takes it
  const std::string name = place.filename().string().substr(0, kLongestPart);
  return place.parent_path() / fmt::format(".{}.{:016x}.partial", name, number);
}

[[noreturn]] void fail_on(const char* action, const std::filesystem::path& path) {
  throw std::runtime_error(
      fmt::format("cannot {} '{}': {}", action, path.string(), std::generic_category().message(errno)));
}

}  // namespace

WholeFile::WholeFile(const std::filesystem::path& place)
    : place_(place),
      hidden_(hidden_beside(place)),
      file_(::open(hidden_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)) {
  if (!file_) fail_on("write", place_);
}

WholeFile::~WholeFile() {
  if (!committed_) ::unlink(hidden_.c_str());
}

void WholeFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.number(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail_on("write", place_);
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void WholeFile::commit(bool durable) {
  if (durable && ::fsync(file_.number()) != 0) fail_on("write", place_);
  // Some file systems tell only now that there is no room.
  const int copy = ::dup(file_.number());
  if (copy < 0 || ::close(copy) != 0) fail_on("write", place_);
  if (::rename(hidden_.c_str(), place_.c_str()) != 0) fail_on("write", place_);
  committed_ = true;
  if (!durable) return;
  const std::filesystem::path folder = place_.parent_path();
  const Descriptor entries(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!entries || ::fsync(entries.number()) != 0) fail_on("write", place_);
}

std::string read_file(const std::filesystem::path& path) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail_on("open", path);
  std::string bytes;
  for (std::size_t filled = 0;;) {
    bytes.resize(filled + kPiece);
    const ssize_t more = ::read(file.number(), bytes.data() + filled, kPiece);
    if (more < 0 && errno != EINTR) fail_on("read", path);
    if (more > 0) filled += static_cast<std::size_t>(more);
    if (more != 0) continue;
    bytes.resize(filled);
    return bytes;
  }
}

}  // namespace rueda
