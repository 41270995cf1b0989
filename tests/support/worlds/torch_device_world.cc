// SPDX-License-Identifier: Apache-2.0
#include "tests/support/worlds/torch_device_world.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/engine/runtime.h"

namespace rueda {

void TorchDeviceWorld::SetUp() {
  if (!FakeTorchDevice::possible()) GTEST_SKIP() << "torch has CUDA in this process";
  at::set_num_threads(1);  // there are enough
}

NcclWorld::Body TorchDeviceWorld::on_torch(const TorchBody& body) {
  return [body](Runtime& runtime, FakeDevice& fake) {
    const FakeTorchDevice device(runtime.topology().rank, fake);
    body(runtime, device);
    fake.finish();
  };
}

void TorchDeviceWorld::run_torch(Rank ranks, const TorchBody& body) { run(ranks, on_torch(body)); }

void TorchDeviceWorld::run_torch_by_the_host(Rank ranks, const TorchBody& body) {
  run(ranks, on_torch(body), {}, [](Rank) { return std::string("the same"); });
}

std::vector<at::Tensor> leaves_on(const Regression& model, at::Device device) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& each : model.tensors()) leaves.push_back(each.detach().to(device).requires_grad_());
  return leaves;
}

at::Tensor loss_of(const std::vector<at::Tensor>& leaves, const Batch& batch) {
  const at::Tensor hidden = at::linear(batch.inputs, leaves[0], leaves[1]).tanh();
  return (at::linear(hidden, leaves[2], leaves[3]) - batch.targets).square().mean();
}

Batch to_device(const Batch& batch, at::Device device) {
  return {batch.inputs.to(device), batch.targets.to(device)};
}

void expect_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_LT(difference(found[i].detach().cpu(), wanted[i].detach().cpu()), 1e-12) << i;
}

}  // namespace rueda
