// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/device_result.h"

#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/wait_check.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {

void DeviceResult::take(const PendingOperations& operations, const std::function<void()>& finish,
                        const std::vector<at::Tensor>& tensors) {
  for (const PendingOperation& each : operations) {
    if (std::shared_ptr<const Fence> fence = each.fence()) fences_.push_back(std::move(fence));
  }
  if (!finish) return;
  behind_it([&] {
    const at::NoGradGuard no_grad;
    finish();
    for (const at::Tensor& each : tensors) {
      if (each.defined() && each.has_storage()) keep_for_current_stream(each.storage());
    }
    const c10::impl::VirtualGuardImpl guard(device_.type());
    c10::Event event(device_.type());
    event.record(guard.getStream(device_));
    finished_.emplace(std::move(event));
  });
}

void DeviceResult::hold_back(const c10::Stream& stream) const {
  if (finished_) return finished_->block(stream);
  for (const auto& fence : fences_) fence->hold_back(stream.native_handle());
}

void DeviceResult::hold_back_current_stream() const {
  hold_back(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

void DeviceResult::behind_it(const std::function<void()>& act) const {
  const c10::StreamGuard there(c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_));
  hold_back_current_stream();
  act();
}

bool DeviceResult::is_there() const {
  if (finished_) return finished_->query();
  return std::ranges::all_of(fences_, [](const auto& fence) { return fence->passed(); });
}

Status DeviceResult::failure() const {
  if (!is_there()) return {};
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = of_group_();
  return *end_;
}

bool DeviceResult::is_there_by(Time deadline) const {
  constexpr std::chrono::microseconds kLookAgain{20};
  RegularLooks looks;
  while (!is_there()) {
    if (clock_now() >= deadline) return false;
    looks.look_if_due();
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

}  // namespace rueda
