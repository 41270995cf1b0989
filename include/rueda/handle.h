// SPDX-License-Identifier: Apache-2.0
// A submitted operation, as its submitter sees it: wait for it, and find its result.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rueda/error.h"
#include "rueda/fence.h"
#include "rueda/status.h"
#include "rueda/tensor_view.h"

namespace rueda {

class HandleState;

// Purpose: the submitter's end of one operation. Copyable; any thread may wait, many at once. A Handle may be
// dropped without waiting: the operation then runs to its end all the same, and the memory it works on must
// stay alive for that long (an `owner` given with the submission sees to it).
class Handle {
 public:
  Handle() = default;  // belongs to no operation: done, ok
  // Of a submitted operation; the operations of rueda.h make it.
  explicit Handle(std::shared_ptr<HandleState> state) : state_(std::move(state)) {}

  // Whether the operation has completed, well or not.
  bool done() const;
  // Returns when the operation has completed. Throws the exception of error.h that belongs to its Status; all
  // ranks get the same words. In Python a signal handler's exception ends the wait early: the operation goes
  // on, and the Handle stays valid.
  void wait() const;
  // As wait, without the exception of the Status.
  Status wait_status() const;
  // As wait_status, for a limited time. False at the deadline: the operation goes on, and the Handle stays
  // valid.
  bool wait_until(std::chrono::steady_clock::time_point deadline) const;

  // While the operation waits for ranks, longer than RUEDA_STALL_CHECK_TIME: the ranks that have not
  // submitted it, and their activity, one to a line. Empty before, and where nothing is known.
  std::string missing_ranks() const;

  // After wait(): where an operation that finds its own output size (allgather, alltoall, reducescatter,
  // gather, scatter) left it. The memory belongs to whoever the submission's `allocate` says; without one, to
  // this Handle.
  const TensorView& output() const;
  // After wait() of an alltoall, gather or scatter: how many rows came from each rank.
  const std::vector<std::int64_t>& received_splits() const;
  // After wait() of an allreduce with Reduction::measure: the sum of the squares, in float64, of those
  // elements of the result, as it is stored, that this rank counts. Each element is counted by one rank of
  // the process set (of those that have not joined). So the sum over the ranks is the square of the result's
  // 2-norm. It is not finite if an element is not, or if the squares are too large for float64. A bad
  // element makes only the share of the rank that counts it NaN or infinite. Sum the shares of all ranks
  // before you check. Which rank counts what depends on how data moves, and with that the last bits of the
  // sum; after an allreduce of the shares they are the same on all ranks. 0 where nothing is measured.
  double share_of_square_sum() const;
  // After wait(), of tensors on a device: the point in the device's work behind which the result is there;
  // wait() does not wait for it. Null for tensors of the host. Until it has been passed the tensors stay
  // alive.
  std::shared_ptr<const Fence> fence() const;
  // After wait() of an allreduce of a tensor on a device: whether it works in the tensor's slot in a window,
  // where it has one; of share_window_async(): whether the ranks share it. The same on all ranks.
  bool takes_window() const;
  // After wait() of a join: the last rank that joined; of add_process_set: the set's id.
  std::int64_t result() const;

 private:
  std::shared_ptr<HandleState> state_;
};

}  // namespace rueda
