// SPDX-License-Identifier: Apache-2.0
// The operations of a group that threads coalesce.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "frameworks/torch/c10d/group_work.h"

namespace rueda {

// Purpose: a thread that coalesces notes the Works of its operations, and gets them at the end. Other threads
// are as always. Any thread; guarded by the mutex.
class CoalescedWorks {
 public:
  using Works = std::vector<c10::intrusive_ptr<GroupWork>>;

  // From now on this thread coalesces. A program may have left an earlier begin by an exception, and its
  // Works are for nobody then.
  void begin();
  // Whether this thread coalesces.
  bool here() const;
  // Notes the Work if this thread coalesces; whether it does.
  bool note(const c10::intrusive_ptr<GroupWork>& work);
  // This thread coalesces no more.
  Works end();

 private:
  Works exchange(bool coalesces);

  std::atomic<std::size_t> threads_{0};  // that coalesce
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Works> works_;  // by thread
};

}  // namespace rueda
