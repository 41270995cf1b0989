// SPDX-License-Identifier: Apache-2.0
// Tensors of LibTorch on fake devices: their memory, and what they are on the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <utility>
#include <vector>

#include "tests/fakes/cuda/fake_devices.h"

namespace rueda {

// What the two parts of the fake know of the devices; fake_torch_devices.cc has them. Any thread.
namespace fake_torch {

// Null where there is none of that number now.
FakeDevice* device_of(at::DeviceIndex index);
DeviceStream handle_of(const c10::Stream& stream);
c10::Stream current_stream(at::DeviceIndex index);

// As c10's of that name: the memory is used on that stream, too.
void record_data_ptr_on_stream(const at::DataPtr& memory, const c10::Stream& stream);
// Whether the memory of `tensor` comes free only behind what that stream has been given until then.
bool is_kept_for(const at::Tensor& tensor, const c10::Stream& stream);

// Purpose: the tensors of one call of an operator: those on the host that stand for tensors on a device while
// it runs there, with the same memory. Lives on the caller's stack.
class Aliases {
 public:
  // `index`: of the device on which results are.
  at::Tensor to_host(const at::Tensor& tensor);
  c10::Storage to_host(const c10::Storage& storage);
  at::Tensor from_host(const at::Tensor& result, at::DeviceIndex index) const;
  // What the operator has changed of its arguments, but for values.
  void take_over(at::DeviceIndex index) const;

 private:
  at::Tensor alias_of(const at::Tensor& tensor);
  void take_over(const at::Tensor& tensor, const at::Tensor& alias, at::DeviceIndex index) const;

  std::vector<std::pair<at::Tensor, at::Tensor>> aliases_;  // on the device, on the host
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;
};

}  // namespace fake_torch
}  // namespace rueda
