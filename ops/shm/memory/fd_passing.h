// SPDX-License-Identifier: Apache-2.0
// How a process gets the descriptor of shared memory that it cannot open through /proc.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "core/base/system/descriptor.h"
#include "ops/shm/memory/shared_file.h"

namespace rueda {

// Purpose: a socket, in no file system, at which processes that know the secret of a SharedFile get its
// descriptor, if they are of the same user; needed where /proc is not for all to read, or shows another
// container's processes. Owned by LocalPeers, used by the background thread.
class FdPassing {
 public:
  // Without a socket nobody is served: it is only the second way.
  explicit FdPassing(std::shared_ptr<SharedFile> file);

  // Gives it to those who have proved that they know the secret. Does not wait.
  void serve();

  // A descriptor, the caller's to close, and who gave it; -1 where there is no such door, where the secret is
  // another one, or nobody served in time. `meanwhile` is called again and again: who asks has doors of his
  // own.
  struct Given {
    int file = -1;
    std::int64_t process_id = 0;  // as this process sees it
  };
  static Given ask(const SegmentHandle& handle, std::chrono::milliseconds timeout,
                   const std::function<void()>& meanwhile);

 private:
  bool answer(int connection);

  std::shared_ptr<SharedFile> file_;
  Descriptor socket_;
  std::deque<Descriptor> asking_;  // their proofs have not come yet
};

}  // namespace rueda
