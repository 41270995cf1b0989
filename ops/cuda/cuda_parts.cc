// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_parts.h"

#include "ops/cuda/device_local_backend.h"
#include "ops/cuda/staged_backend.h"

namespace rueda {

std::shared_ptr<DeviceSides> add_cuda(RuntimeComponents& parts, std::shared_ptr<Devices> devices) {
  auto sides = std::make_shared<DeviceSides>(devices);
  parts.device_memory = [devices](int device, std::size_t bytes) {
    return devices->at(device).memory(bytes);
  };
  parts.accelerator = std::move(devices);
  const std::size_t count = parts.backends.size();
  parts.backends.push_back(std::make_unique<DeviceLocalBackend>(sides));
  for (std::size_t i = 0; i < count; ++i)
    parts.backends.push_back(std::make_unique<StagedBackend>(*parts.backends[i], sides, parts.rank));
  return sides;
}

}  // namespace rueda
