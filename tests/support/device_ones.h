// SPDX-License-Identifier: Apache-2.0
// One tensor on a fake device.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "core/engine/submission.h"
#include "tests/support/fake_devices.h"

namespace rueda {

// Purpose: ones, which the host can look at when the device is through.
struct DeviceOnes {
  DeviceOnes(FakeDevice& device, std::size_t count)
      : elements(static_cast<std::int64_t>(count)), memory(device.memory(count * sizeof(float))) {
    std::fill_n(values(), count, 1.0f);
  }
  float* values() const { return reinterpret_cast<float*>(FakeDevice::real(memory.get())); }
  // In place.
  Submission sum(const std::string& name) {
    Submission submission;
    submission.request.name = name;
    submission.request.shape = {elements};
    submission.request.device = DeviceKind::cuda;
    submission.output = {memory.get(), DataType::float32, {elements}, {}};
    submission.input = submission.output;
    submission.stream = this;
    submission.owner = memory;
    return submission;
  }

  std::int64_t elements;
  std::shared_ptr<std::byte> memory;
};

}  // namespace rueda
