// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads, each with a device on which LibTorch computes.
#pragma once

#include <functional>
#include <vector>

#include "tests/fakes/torch/fake_torch_devices.h"
#include "tests/support/training/regression.h"
#include "tests/support/worlds/nccl_world.h"

namespace rueda {

// Purpose: the devices of one test, fakes, NCCL among them, and LibTorch on them.
class TorchDeviceWorld : public NcclWorld {
 protected:
  using TorchBody = std::function<void(Runtime&, const FakeTorchDevice&)>;

  void SetUp() override;
  void run_torch(Rank ranks, const TorchBody& body);
  // The same by way of the host: all say that they have one device, and NCCL takes but one rank on each.
  void run_torch_by_the_host(Rank ranks, const TorchBody& body);

 private:
  static Body on_torch(const TorchBody& body);
};

// Leaves of the same values there.
std::vector<at::Tensor> leaves_on(const Regression& model, at::Device device);

// As mse_loss, of which LibTorch's kernel for devices is no composite.
at::Tensor loss_of(const std::vector<at::Tensor>& leaves, const Batch& batch);

Batch to_device(const Batch& batch, at::Device device);

void expect_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted);

}  // namespace rueda
