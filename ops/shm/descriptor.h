// SPDX-License-Identifier: Apache-2.0
// A file descriptor that is closed at the end of its scope.
#pragma once

#include <unistd.h>

#include <utility>

namespace rueda {

// Purpose: owns a descriptor, or none (-1). Move-only value.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.take()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    number_ = other.take();
    return *this;
  }
  ~Descriptor() { close(); }

  int number() const { return number_; }
  int take() { return std::exchange(number_, -1); }
  void close() {
    if (number_ >= 0) ::close(take());
  }

 private:
  int number_ = -1;
};

}  // namespace rueda
