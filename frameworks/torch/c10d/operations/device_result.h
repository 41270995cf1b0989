// SPDX-License-Identifier: Apache-2.0
// The end of an operation on a device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "frameworks/torch/c10d/operations/pending_operation.h"
#include "rueda/fence.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: the point in a device's work behind which a result is there. The host has given the device all
// before; it does not wait. Owned by a Work. Written once; then any thread may use it: what it finds out
// later is guarded by the mutex.
class DeviceResult {
 public:
  // `failure` tells why the group cannot go on.
  DeviceResult(at::Device device, std::function<Status()> failure)
      : device_(device), of_group_(std::move(failure)) {}

  // The operations have ended well on the host. `finish`, if there is one, is called so that its work on the
  // device comes behind theirs, and uses the memory of `tensors`.
  void take(const PendingOperations& operations, const std::function<void()>& finish,
            const std::vector<at::Tensor>& tensors);

  // Later work of this thread's current stream waits for the result.
  void hold_back_current_stream() const;
  // Calls `act` with a stream of torch's as the current one that waits for the result.
  void behind_it(const std::function<void()>& act) const;
  // The host waits until the deadline. Whether the result is there.
  bool is_there_by(Time deadline) const;
  // What a lost group leaves on a device ends there, too. Ok as long as the result is not there.
  Status failure() const;

 private:
  bool is_there() const;
  void hold_back(const c10::Stream& stream) const;

  const at::Device device_;
  std::vector<std::shared_ptr<const Fence>> fences_;
  std::optional<c10::Event> finished_;  // behind all fences, if there was more to do
  const std::function<Status()> of_group_;
  mutable std::mutex mutex_;
  mutable std::optional<Status> end_;  // the group's at the first look at the end; guarded by mutex_
};

}  // namespace rueda
