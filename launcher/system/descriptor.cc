// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rueda {

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::error_code write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // a terminal that someone has made non-blocking
      pollfd ready{descriptor, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return {errno, std::generic_category()};
    }
  }
  return {};
}

std::string_view read_some(int descriptor) {
  static std::array<char, 64 << 10> buffer;
  errno = 0;
  ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  return {buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

std::string text_of_file(const std::string& path) {
  constexpr std::size_t kMost = 1 << 20;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  while (file && text.size() < kMost) {
    const std::string_view piece = read_some(file.number());
    if (piece.empty()) break;
    text += piece;
  }
  return text;
}

void limit_descriptors(std::uint64_t soft) {
  rlimit limit{};
  if (soft == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(soft, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void set_non_blocking(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

std::uint64_t allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  static const std::uint64_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

Descriptor high_copy_of(const Descriptor& descriptor) {
  for (const int least : {200, 64, STDERR_FILENO + 1}) {
    const int copy = ::fcntl(descriptor.number(), F_DUPFD_CLOEXEC, least);
    if (copy >= 0) return Descriptor(copy);
  }
  return {};
}

std::string identity_of(int descriptor) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return "";
  return fmt::format("{}:{}:{}", descriptor, about.st_dev, about.st_ino);
}

bool same_file(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

void fill_standard_streams() {
  int opened = 0;
  while ((opened = ::open("/dev/null", O_RDWR)) >= 0 && opened <= STDERR_FILENO) {}
  ::close(opened);
}

}  // namespace rueda
