// SPDX-License-Identifier: Apache-2.0
// The devices that CUDA finds.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ops/cuda/device.h"

namespace rueda {

// Purpose: see Devices. CUDA, and with it the driver, is asked at the first call, not before: programs that
// never use a device do not wait for it.
class CudaDevices final : public Devices {
 public:
  CudaDevices();
  ~CudaDevices() override;

  std::string problem() override;
  std::shared_ptr<const Fence> record(int device, DeviceStream stream) override;
  Device& at(int number) override;

 private:
  class OneDevice;
  void look();
  OneDevice& device(int number);

  std::mutex mutex_;  // of what follows; the devices are made once
  bool looked_ = false;
  std::string problem_;
  std::vector<std::unique_ptr<OneDevice>> devices_;
};

}  // namespace rueda
