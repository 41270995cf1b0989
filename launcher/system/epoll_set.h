// SPDX-License-Identifier: Apache-2.0
// Many descriptors that wait to be read.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: tells which of many descriptors can be read, each by a number of the caller's (epoll). A
// descriptor leaves the set when it is closed. Owned by one thread.
class EpollSet {
 public:
  EpollSet();  // throws std::system_error

  int descriptor() const { return poll_.number(); }  // readable when one of the set is
  void add(int descriptor, std::uint64_t key);
  // Those that can be read now, some at a time.
  std::vector<std::uint64_t> ready() const;

 private:
  Descriptor poll_;
};

}  // namespace rueda
