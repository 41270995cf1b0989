// SPDX-License-Identifier: Apache-2.0
// Gradients in a window on a device of the tests' own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/fakes/cuda/fake_devices.h"
#include "tests/support/training/device_ones.h"

namespace rueda {

inline constexpr std::size_t kGradientBytes = 4096;

// Purpose: tensors "a" of 10, "b" of 16 and "c" of 3 float32 in a window, which begin at 0, 64 and 256: a gap
// lies before the last.
struct Gradients {
  explicit Gradients(Runtime& runtime) : memory(runtime.allocate_on_device(0, kGradientBytes)) {}
  DeviceWindow window() const {
    return {memory, kGradientBytes, {{"a", 0, 40}, {"b", 64, 64}, {"c", 256, 12}}};
  }
  float* values(std::size_t offset) const {
    return reinterpret_cast<float*>(FakeDevice::real(memory.get()) + offset);
  }
  void fill() const { std::fill_n(values(0), kGradientBytes / sizeof(float), 1.0f); }
  Submission sum(const DeviceWindow::Slot& slot) {
    Submission submission;
    submission.request.name = slot.name;
    submission.request.shape = {static_cast<std::int64_t>(slot.bytes / sizeof(float))};
    submission.request.device = DeviceKind::cuda;
    submission.output = {memory.get() + slot.offset, DataType::float32, submission.request.shape, {}};
    submission.input = submission.output;
    submission.stream = this;
    submission.owner = memory;
    return submission;
  }
  // All of them together, which makes one Plan.
  void reduce(Runtime& runtime) {
    fill();
    std::vector<Submission> group;
    for (const DeviceWindow::Slot& slot : window().slots) group.push_back(sum(slot));
    for (const Handle& handle : runtime.submit_group(std::move(group))) wait_on_device(handle);
    for (const DeviceWindow::Slot& slot : window().slots)
      EXPECT_EQ(*values(slot.offset), static_cast<float>(runtime.topology().size)) << slot.name;
  }

  std::shared_ptr<std::byte> memory;
};

}  // namespace rueda
