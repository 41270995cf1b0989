// SPDX-License-Identifier: Apache-2.0
// Whether an operation is complete.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/system/futex.h"

namespace rueda {

// Purpose: the state word of an operation, on which threads sleep until it is complete. Any thread may read
// it. The derived class writes it, once.
class Completion {
 public:
  bool done() const { return state_.load(std::memory_order_acquire) == kDone; }

 protected:
  static constexpr std::uint32_t kOpen = 0, kClosing = 1, kDone = 2;

  Completion() = default;
  ~Completion() = default;

  FutexWord state_{kOpen};
};

}  // namespace rueda
