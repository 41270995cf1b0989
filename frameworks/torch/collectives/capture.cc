// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/collectives/capture.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/engine/runtime.h"

namespace rueda {

void capture(const std::function<void()>& body, Scope scope) {
  // Without a device, core says the reason; torch then knows no current device.
  const bool any = scope.runtime().device_problem().empty();
  const int device = any ? c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getDevice().index() : 0;
  capture(body, device, scope);
}

}  // namespace rueda
