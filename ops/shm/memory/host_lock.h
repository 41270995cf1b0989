// SPDX-License-Identifier: Apache-2.0
// One process of a host at a time.
#pragma once

#include "core/base/system/descriptor.h"

namespace rueda {

// Purpose: while it lives, no other HostLock of this host does. Memory that is free when a process looks is
// still free when it takes it. The lock is one of the folder /dev/shm, so nothing is left behind, and it ends
// with the process. Any other program may hold that lock: after 5 s the object is there without it. Later
// ones then do not wait, until one gets the lock. Threads of one process exclude each other too.
class HostLock {
 public:
  explicit HostLock(const char* folder = "/dev/shm");
  ~HostLock();
  HostLock(const HostLock&) = delete;
  HostLock& operator=(const HostLock&) = delete;

  bool held() const { return held_; }

 private:
  Descriptor folder_;
  bool held_ = false;
};

}  // namespace rueda
