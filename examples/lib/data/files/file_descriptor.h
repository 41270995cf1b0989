// SPDX-License-Identifier: Apache-2.0
// Open files that close themselves, and the words for what fails on them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace rueda::examples {

// Owns what open() gave; negative: nothing.
class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

// Throws std::runtime_error "cannot WHAT FILE: the system's words for `error`".
[[noreturn]] inline void fail_on_file(const char* what, const std::filesystem::path& path, int error) {
  throw std::runtime_error(std::string("cannot ") + what + " " + path.string() + ": " +
                           std::generic_category().message(error));
}

}  // namespace rueda::examples
