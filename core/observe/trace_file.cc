// SPDX-License-Identifier: Apache-2.0
#include "core/observe/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace rueda {
namespace {

constexpr std::string_view kBegin = "[";
constexpr std::string_view kEnd = "\n]\n";

bool write_at(int descriptor, std::string_view text, std::int64_t at) {
  while (!text.empty()) {
    const ssize_t written = pwrite(descriptor, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
  return true;
}

}  // namespace

TraceFile::~TraceFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status TraceFile::open(const std::string& path) {
  path_ = path;
  descriptor_ = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ >= 0 && write_at(descriptor_, fmt::format("{}{}", kBegin, kEnd), 0)) {
    end_ = static_cast<std::int64_t>(kBegin.size());
    return {};
  }
  return Status::invalid_argument(
      fmt::format("timeline: cannot write '{}': {}. Give a file in a folder that exists and can be written.",
                  path, std::strerror(errno)));
}

Status TraceFile::append(std::string_view elements) {
  if (elements.empty()) return {};
  if (empty_) elements.remove_prefix(1);  // no comma before the first
  if (write_at(descriptor_, fmt::format("{}{}", elements, kEnd), end_)) {
    end_ += static_cast<std::int64_t>(elements.size());
    empty_ = false;
    return {};
  }
  const int reason = errno;
  if (write_at(descriptor_, kEnd, end_))
    static_cast<void>(ftruncate(descriptor_, end_ + static_cast<std::int64_t>(kEnd.size())) == 0);
  return Status::backend_error(fmt::format("timeline: cannot write '{}': {}", path_, std::strerror(reason)));
}

}  // namespace rueda
