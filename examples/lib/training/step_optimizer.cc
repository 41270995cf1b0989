// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/step_optimizer.h"

#include <torch/nn/module.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rueda/torch.h>

namespace rueda::examples {
namespace {

using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;

torch::optim::AdamWOptions algorithm_options(const TrainOptions& options, double weight_decay,
                                             const torch::optim::AdamW*) {
  return torch::optim::AdamWOptions(options.learning_rate).weight_decay(weight_decay);
}

torch::optim::SGDOptions algorithm_options(const TrainOptions& options, double weight_decay,
                                           const torch::optim::SGD*) {
  return torch::optim::SGDOptions(options.learning_rate).weight_decay(weight_decay);
}

RAdamOptions algorithm_options(const TrainOptions& options, double weight_decay, const RAdam*) {
  return RAdamOptions(options.learning_rate).weight_decay(weight_decay).decoupled_weight_decay(true);
}

LambOptions algorithm_options(const TrainOptions& options, double weight_decay, const Lamb*) {
  return LambOptions(options.learning_rate).weight_decay(weight_decay);
}

LarsOptions algorithm_options(const TrainOptions& options, double weight_decay, const Lars*) {
  return LarsOptions(options.learning_rate).weight_decay(weight_decay);
}

template <class Algorithm>
std::vector<torch::optim::OptimizerParamGroup> parameter_groups(const NamedParameters& parameters,
                                                                const TrainOptions& options) {
  std::vector<at::Tensor> decayed;
  std::vector<at::Tensor> plain;
  for (const auto& [name, parameter] : parameters) {
    const bool plain_kind = name.ends_with(".bias") || name.find("LayerNorm") != std::string::npos;
    (plain_kind ? plain : decayed).push_back(parameter);
  }
  const auto group = [&](std::vector<at::Tensor> members, double weight_decay) {
    auto group_options = algorithm_options(options, weight_decay, static_cast<const Algorithm*>(nullptr));
    return torch::optim::OptimizerParamGroup(std::move(members),
                                             std::make_unique<decltype(group_options)>(group_options));
  };
  return {group(std::move(decayed), options.weight_decay), group(std::move(plain), 0)};
}

// The common part of a plain and a distributed optimizer. Owns the optimizer.
template <class Optimizer>
class OptimizerOf : public StepOptimizer {
 public:
  template <class... Arguments>
  explicit OptimizerOf(Arguments&&... arguments) : optimizer_(std::forward<Arguments>(arguments)...) {}

  void zero_grad() override { optimizer_.zero_grad(); }
  void set_learning_rate(double learning_rate) override {
    for (torch::optim::OptimizerParamGroup& group : optimizer_.param_groups())
      group.options().set_lr(learning_rate);
  }
  bool is_sync_step() const override { return true; }
  bool synchronize() override { return true; }
  GradientNorm clip(double limit) override {
    const std::vector<at::Tensor> parameters = parameters_of(optimizer_.param_groups());
    const GradientNorm norm = norm_of_gradients(parameters);
    clip_gradients(parameters, norm, limit);
    return norm;
  }
  void step() override { optimizer_.step(); }
  void flush(double) override {}
  bool has_own_state() const override { return true; }
  std::string save_state() override { return to_bytes(optimizer_); }
  void load_state(const std::string& bytes, const LoadOptions& options) override {
    from_bytes(bytes, optimizer_, options);
  }
  std::int64_t sync_interval() const override { return 0; }
  double drift() const override { return 0; }
  double wait_seconds() const override { return 0; }
  elastic::Kept kept() override { return static_cast<torch::optim::Optimizer&>(optimizer_); }

 protected:
  Optimizer optimizer_;
};

// For a DistributedOptimizer or a ShardedOptimizer.
template <class Optimizer>
class SynchronizingOptimizerOf : public OptimizerOf<Optimizer> {
 public:
  // `own_state`: ranks step apart from each other, so that their optimizers' states differ.
  template <class... Arguments>
  explicit SynchronizingOptimizerOf(bool own_state, Arguments&&... arguments)
      : OptimizerOf<Optimizer>(std::forward<Arguments>(arguments)...), own_state_(own_state) {}

  bool is_sync_step() const override { return this->optimizer_.is_sync_step(); }
  bool synchronize() override { return this->optimizer_.synchronize(); }
  GradientNorm clip(double limit) override { return this->optimizer_.clip_grad_norm_(limit); }
  void flush(double limit) override {
    this->optimizer_.flush(limit > 0 ? std::optional<double>(limit) : std::nullopt);
  }
  bool has_own_state() const override { return own_state_; }
  std::string save_state() override {
    if constexpr (std::is_base_of_v<Sharded, Optimizer>) {
      return bytes_of(this->optimizer_.state_dict());
    } else {
      return own_state_ || rank() == 0 ? to_bytes(this->optimizer_) : std::string();
    }
  }
  void load_state(const std::string& bytes, const LoadOptions& options) override {
    if constexpr (std::is_base_of_v<Sharded, Optimizer>) {
      this->optimizer_.load_state_dict(saved_of(bytes, options));
    } else {
      from_bytes(bytes, this->optimizer_, options);
    }
  }
  std::int64_t sync_interval() const override { return this->optimizer_.sync_interval(); }
  double drift() const override { return this->optimizer_.drift(); }
  double wait_seconds() const override { return this->optimizer_.wait_seconds(); }

 private:
  bool own_state_;
};

template <class Algorithm>
std::unique_ptr<StepOptimizer> make(NamedParameters parameters, const TrainOptions& options) {
  auto groups = parameter_groups<Algorithm>(parameters, options);
  auto algorithm = algorithm_options(options, options.weight_decay, static_cast<const Algorithm*>(nullptr));
  if (!options.synchronize()) return std::make_unique<OptimizerOf<Algorithm>>(std::move(groups), algorithm);
  DistributedOptions distributed;
  distributed.named_parameters = std::move(parameters);
  distributed.backward_passes_per_step = static_cast<int>(options.backward_passes_per_step);
  distributed.schedule = options.schedule;
  distributed.compression = options.compression;
  distributed.compression_share = options.compression_share;
  distributed.low_rank.rank = options.low_rank;
  distributed.measure_norm = options.clip > 0;
  distributed.overlap = options.overlap;
  if constexpr (is_elementwise<Algorithm>) {
    if (options.shard) {
      return std::make_unique<SynchronizingOptimizerOf<ShardedOptimizer<Algorithm>>>(false, groups, algorithm,
                                                                                     distributed);
    }
  }
  return std::make_unique<SynchronizingOptimizerOf<DistributedOptimizer<Algorithm>>>(
      options.schedule.averages_parameters(), std::move(groups), algorithm, std::move(distributed));
}

}  // namespace

std::unique_ptr<StepOptimizer> make_optimizer(const torch::nn::Module& module, const TrainOptions& options) {
  NamedParameters parameters;
  for (const auto& item : module.named_parameters()) parameters.emplace_back(item.key(), item.value());
  switch (options.optimizer) {
    case OptimizerKind::adamw: return make<FusedAdamW>(std::move(parameters), options);
    case OptimizerKind::sgd: return make<torch::optim::SGD>(std::move(parameters), options);
    case OptimizerKind::radam: return make<RAdam>(std::move(parameters), options);
    case OptimizerKind::lamb: return make<Lamb>(std::move(parameters), options);
    case OptimizerKind::lars: return make<Lars>(std::move(parameters), options);
  }
  throw std::logic_error("no such optimizer");
}

}  // namespace rueda::examples
