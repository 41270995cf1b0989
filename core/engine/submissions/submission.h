// SPDX-License-Identifier: Apache-2.0
// A framework's order to the Runtime: the request, the memory, and the owner of that memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/control/messages/request.h"
#include "rueda/device_window.h"
#include "rueda/fence.h"
#include "rueda/tensor_view.h"

namespace rueda {

// Called once on the background thread when an output's shape is known; returns contiguous memory of that
// shape. An exception it throws fails this operation, on every rank that has not finished it.
using Allocate = std::function<TensorView(DataType dtype, const Shape& shape)>;

// Purpose: one operation on its way from a framework thread to the background thread. Moved into the
// HandleState, which both share; the background thread's until completion.
//   input     read by every operation except barrier
//   output    allreduce, broadcast, and reduce on its root: written; in place (with the input's layout), or
//             disjoint from the input
//   into_output  allgather, alltoall, reducescatter, gather, scatter: `output` takes the result, which has as
//                many elements; the input of an allgather may be its own part there
//   allocate  without that: makes the output; empty: the Handle owns plain host memory
//   splits    alltoall, and scatter on its root: rows of the input for each rank of the set, in rank order;
//             empty: equal parts
//   expected_splits  alltoall, and gather on its root: rows that are to come from each rank, or the operation
//                    fails; null: any
//   owner     whatever keeps input and output alive; released on the framework's side after completion
//   members   of the request's process set; null: all ranks
//   device    device number; unused for host tensors
//   stream    on a device: the program made the input on it, and will use the output on it
//   ready     on a device: behind what `stream` had been given at submission; Runtime::submit fills it in
//   where
//             the submitter has not (Runtime::make_ready)
//   awaited   whoever submits waits at once: the background thread need not be woken before that
//   window    of a barrier on a device: what its ranks share from then on
struct Submission {
  Request request;
  ConstTensorView input;
  TensorView output;
  Allocate allocate;
  std::vector<std::int64_t> splits;
  std::shared_ptr<const std::vector<std::int64_t>> expected_splits;
  std::shared_ptr<void> owner;
  std::shared_ptr<const RankSet> members;
  int device = 0;
  DeviceStream stream = nullptr;
  std::shared_ptr<const Fence> ready;
  bool awaited = false;
  bool into_output = false;
  std::shared_ptr<const DeviceWindow> window;
};

}  // namespace rueda
