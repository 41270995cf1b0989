// SPDX-License-Identifier: Apache-2.0
// One tensor on a fake device.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/rueda.h"
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

// Until the result is there; this moves fake devices on.
inline void wait_on_device(const Handle& handle) {
  handle.wait();
  while (!handle.fence()->passed()) std::this_thread::yield();
}

// Rank 1 has joined while rank 0 sums up its ones; throws where its zeros are missing.
inline void sum_beside_a_joined_rank(Runtime& runtime, FakeDevice& device) {
  if (runtime.topology().rank == 0) {
    DeviceOnes ones(device, 100);
    wait_on_device(runtime.submit(ones.sum("t")));
    if (std::ranges::count(ones.values(), ones.values() + 100, 1.0f) != 100)
      throw std::runtime_error("what stands in for a joined rank is not zero");
  }
  join(runtime);
}

}  // namespace rueda
