// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/device_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/sharding/sharded_model.h"
#include "tests/support/training/layered_model.h"

namespace rueda {
namespace {

constexpr int kSteps = 12, kRows = 6;
constexpr double kClip = 0.5;

torch::optim::AdamWOptions adamw() { return torch::optim::AdamWOptions(0.02); }

Batch batch_of(int step, const Runtime& runtime, at::Device device) {
  const long row = static_cast<long>(step) * runtime.topology().size + runtime.topology().rank;
  const Batch batch = make_batch(row * kRows, kRows);
  return {batch.inputs.to(device), batch.targets.to(device)};
}

std::vector<double> sharded_losses(Runtime& runtime, at::Device device) {
  LayeredModel model;
  model.to(device);
  ShardedModel<FusedAdamW> shards(model, {.units = model.units()}, adamw(), runtime);
  model.runner = shards.runner();
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    shards.zero_grad();
    const at::Tensor loss = shards.run([&] { return model.loss(batch_of(step, runtime, device)); });
    loss.backward();
    shards.clip_grad_norm(kClip);
    shards.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

std::vector<double> whole_losses(Runtime& runtime) {
  LayeredModel model;
  DistributedOptimizer<FusedAdamW> optimizer(model.parameters(), adamw(), {}, runtime);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = model.loss(batch_of(step, runtime, at::kCPU));
    loss.backward();
    optimizer.clip_grad_norm_(kClip);
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace

ShardedLosses train_sharded_and_whole(Runtime& runtime, at::Device device) {
  return {.sharded = sharded_losses(runtime, device), .whole = whole_losses(runtime)};
}

double relative_difference(const ShardedLosses& losses) {
  const auto& [sharded, whole] = losses;
  if (whole.empty() || sharded.size() != whole.size())
    throw std::runtime_error(fmt::format("there are {} losses of the sharded model and {} of the whole one",
                                         sharded.size(), whole.size()));
  if (!(whole.back() < 0.9 * whole.front()))
    throw std::runtime_error(
        fmt::format("the whole model has not learned: its loss is {} at first and {} at last", whole.front(),
                    whole.back()));
  double largest = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const double apart = std::abs(sharded[i] - whole[i]) / std::abs(whole[i]);
    if (std::isnan(apart)) return apart;
    largest = std::max(largest, apart);
  }
  return largest;
}

}  // namespace rueda
