// SPDX-License-Identifier: Apache-2.0
#include "core/base/files/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <system_error>

namespace rueda {
namespace {

constexpr std::string_view kEnd = ".partial";
constexpr std::size_t kDigits = 16;

// All hidden names for this path begin so. Digits and kEnd follow.
std::string begin_of_hidden(const std::filesystem::path& path) {
  constexpr std::size_t kLongestPart = 200;  // of a name; a folder takes it with the rest
  return "." + path.filename().string().substr(0, kLongestPart) + ".";
}

std::filesystem::path hidden_beside(const std::filesystem::path& path) {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number)))
    throw std::runtime_error("the system gives no random numbers for the name of a new file");
  return path.parent_path() / fmt::format("{}{:0{}x}{}", begin_of_hidden(path), number, kDigits, kEnd);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

bool lock(const Descriptor& file) { return ::flock(file.number(), LOCK_EX | LOCK_NB) == 0; }

// False where remove_leftovers() of another writer has come between. A file system without locks is no reason
// to write nothing.
bool take(const Descriptor& file) {
  struct stat status {};
  if (!lock(file) && errno == EWOULDBLOCK) return false;
  return ::fstat(file.number(), &status) == 0 && status.st_nlink > 0;
}

// Files for this path whose writers were killed. One that lives holds a lock.
void remove_leftovers(const std::filesystem::path& path) {
  const std::string begin = begin_of_hidden(path);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_of(path), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.size() != begin.size() + kDigits + kEnd.size() || !name.starts_with(begin) ||
        !name.ends_with(kEnd))
      continue;
    const Descriptor file(::open(entry->path().c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file && lock(file)) ::unlink(entry->path().c_str());
  }
}

[[noreturn]] void fail_on(const char* action, const std::filesystem::path& path) {
  throw std::runtime_error(
      fmt::format("cannot {} '{}': {}", action, path.string(), std::generic_category().message(errno)));
}

}  // namespace

WholeFile::WholeFile(const std::filesystem::path& path) : path_(path) {
  remove_leftovers(path_);
  do {
    hidden_ = hidden_beside(path_);
    file_ = Descriptor(::open(hidden_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file_) fail_on("write", path_);
  } while (!take(file_));
}

WholeFile::~WholeFile() {
  if (!committed_) ::unlink(hidden_.c_str());
}

void WholeFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.number(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail_on("write", path_);
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// Without fsync() some file systems tell only as a descriptor is closed that there is no room. This one stays
// open, and with it the lock, until the file has its own name.
bool WholeFile::has_room(bool durable) const {
  return (durable ? ::fsync(file_.number()) : ::close(::dup(file_.number()))) == 0;
}

void WholeFile::commit(bool durable) {
  if (!has_room(durable) || ::rename(hidden_.c_str(), path_.c_str()) != 0) fail_on("write", path_);
  committed_ = true;
  if (!durable) return;
  const Descriptor entries(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!entries || ::fsync(entries.number()) != 0) fail_on("write", path_);
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
