// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_components.h"

#include "ops/cuda/device_local_backend.h"
#include "ops/cuda/staged_backend.h"

namespace rueda {

std::shared_ptr<DeviceSides> add_cuda(RuntimeComponents& components, std::shared_ptr<Devices> devices) {
  auto sides = std::make_shared<DeviceSides>(devices);
  components.device_memory = [devices](int device, std::size_t bytes) {
    return devices->at(device).memory(bytes);
  };
  components.accelerator = std::move(devices);
  const std::size_t count = components.backends.size();
  components.backends.push_back(std::make_unique<DeviceLocalBackend>(sides));
  for (std::size_t i = 0; i < count; ++i)
    components.backends.push_back(
        std::make_unique<StagedBackend>(*components.backends[i], sides, components.rank));
  return sides;
}

}  // namespace rueda
