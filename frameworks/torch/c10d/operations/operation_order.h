// SPDX-License-Identifier: Apache-2.0
// The order of a group's operations, which takes the place of names.
#pragma once

#include <c10/util/SmallVector.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "core/base/time.h"
#include "core/engine/runtime.h"
#include "core/engine/submissions/submission.h"
#include "rueda/handle.h"

namespace rueda {

// Purpose: c10d's operations have no names: the n-th of each rank belong together. So their name is n mod
// kSlots: ranks that differ in their n-th operation get Mismatch at once, and programs that repeat their
// steps find the names in the request cache. Any thread; guarded by the mutex, so that the order of calls is
// the order of numbers.
class OperationOrder {
 public:
  // Multiples of many numbers, so that a step of so many operations meets the same names again; fewer than
  // the request cache has room for.
  static constexpr std::uint64_t kSlots = 120;

  // Names start with `prefix`.
  explicit OperationOrder(std::string prefix) : prefix_(std::move(prefix)) {}

  using Handles = c10::SmallVector<Handle, 1>;
  using Submissions = c10::SmallVector<Submission, 1>;

  // Purpose: an operation that has begun. A plain value.
  struct Begun {
    std::uint64_t number = 0;  // from 1
    Handles handles;
  };
  // The next operation, of one submission or several that belong together. An operation may be in flight that
  // has the same name: waits for it, `longest` at most. Throws the errors of Runtime::submit, and Stalled.
  Begun begin(Runtime& runtime, Submissions&& submissions, Duration longest);

  // Whether begin() would not wait.
  bool has_room() const;

  // Of the last operation; 0: there was none.
  std::uint64_t last() const;

 private:
  // With the mutex.
  bool is_free(std::uint64_t number) const;
  void wait_for_slot(std::uint64_t number, Duration longest);

  mutable std::mutex mutex_;
  const std::string prefix_;
  std::uint64_t last_ = 0;
  std::array<Handles, kSlots> in_flight_;
};

OperationOrder::Submissions one_of(Submission&& submission);

}  // namespace rueda
