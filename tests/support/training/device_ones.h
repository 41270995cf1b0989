// SPDX-License-Identifier: Apache-2.0
// One tensor on a fake device.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/fakes/cuda/fake_devices.h"

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

// Rank 1 cannot allocate outputs: operations that make theirs fail on all ranks, in its words, and the next
// one works.
inline void missing_output_fails_everywhere(Runtime& runtime, FakeDevice& device) {
  using ::testing::HasSubstr;
  DeviceOnes ones(device, 10);
  wait_on_device(runtime.submit(ones.sum("before")));
  for (const Operation operation : {Operation::allgather, Operation::alltoall, Operation::reducescatter}) {
    DeviceOnes input(device, 12);
    Submission submission = input.sum("t");
    submission.request.operation = operation;
    submission.output = {};
    std::shared_ptr<std::byte> made;
    submission.allocate = [&](DataType dtype, const Shape& shape) {
      if (runtime.topology().rank == 1) throw std::runtime_error("the test has no memory");
      made = device.memory(static_cast<std::size_t>(element_count(shape)) * 4 + 1);
      return TensorView{made.get(), dtype, shape, {}};
    };
    const Status status = runtime.submit(std::move(submission)).wait_status();
    EXPECT_EQ(status.code, StatusCode::backend_error);
    EXPECT_THAT(status.message, HasSubstr("rank 1"));
    EXPECT_THAT(status.message, HasSubstr("of float32: the test has no memory"));
  }
  wait_on_device(runtime.submit(ones.sum("after")));
  const auto size = static_cast<float>(runtime.topology().size);
  EXPECT_EQ(ones.values()[0], size * size);
}

}  // namespace rueda
