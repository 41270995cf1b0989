// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/capture.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace rueda {

void capture(const std::function<void()>& body, Scope scope) {
  // Where torch knows of no device, core says why.
  const bool knows = c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA);
  const int device = knows ? c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getDevice().index() : 0;
  capture(body, device, scope);
}

}  // namespace rueda
