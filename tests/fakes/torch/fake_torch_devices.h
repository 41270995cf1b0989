// SPDX-License-Identifier: Apache-2.0
// LibTorch on CUDA devices without a device: autograd, optimizers and streams as they would run there.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include "tests/fakes/cuda/fake_devices.h"

namespace rueda {

// Purpose: cuda:N of this process is a fake device, while it lives. What torch is given for cuda:N runs on
// the host, on the calling thread, after what its current stream must wait for: who forgets to make a stream
// wait for Rueda computes with what was there before. Memory comes free in the order of streams. Used by one
// rank's thread; the backward passes of cuda:N run on a thread of torch's own, so each rank needs an N of its
// own.
class FakeTorchDevice {
 public:
  static constexpr int kMost = 8;
  // False where torch itself knows of CUDA in this process.
  static bool possible();

  FakeTorchDevice(int number, FakeDevice& device);
  ~FakeTorchDevice();
  FakeTorchDevice(const FakeTorchDevice&) = delete;
  FakeTorchDevice& operator=(const FakeTorchDevice&) = delete;

  at::Device name() const { return {at::kCUDA, static_cast<at::DeviceIndex>(number_)}; }
  // Any of four: 0 is the one that is current at first.
  c10::Stream stream(c10::StreamId id) const { return c10::Stream(c10::Stream::UNSAFE, name(), id); }
  // From now on sums of products have other last bits there, as those of another kind of device may have.
  void compute_otherwise() const;
  // Whether what the tensor's memory becomes when it is free waits for that stream.
  bool is_kept_for(const at::Tensor& tensor, c10::StreamId id) const;
  // How often the host had to wait for this device: values were copied to it, or read, or it had nothing more
  // to do than what the host waited for.
  long host_waits() const;
  // How often torch has copied a tensor from the device to itself.
  long copies() const;

 private:
  const int number_;
};

}  // namespace rueda
