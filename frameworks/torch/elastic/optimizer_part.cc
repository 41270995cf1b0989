// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/optimizer_part.h"

#include <algorithm>

#include "frameworks/torch/state/optimizer_tensors.h"
#include "rueda/torch/state/parameter_groups.h"
#include "rueda/torch/state/parameters.h"
#include "rueda/torch/state/stateful.h"

namespace rueda::elastic {
namespace {

GradientReducer* reducer_of(torch::optim::Optimizer& optimizer) {
  auto* const has_reducer = dynamic_cast<HasGradientReducer*>(&optimizer);
  return has_reducer == nullptr ? nullptr : &has_reducer->gradient_reducer();
}

}  // namespace

OptimizerPart::OptimizerPart(torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer), reducer_(reducer_of(optimizer)) {
  if (reducer_ != nullptr) reducer_->count_steps();
  OptimizerPart::save();
}

std::string OptimizerPart::describe() const { return Stateful(optimizer_).describe(); }

bool OptimizerPart::knows_states() const {
  return std::ranges::all_of(optimizer_.state(),
                             [](const auto& each) { return tensors_of(*each.second).has_value(); });
}

void OptimizerPart::keep_options() {
  options_.clear();
  for (const auto& group : optimizer_.param_groups()) options_.push_back(group.options().clone());
}

void OptimizerPart::begin_to_count() {
  if (reducer_ != nullptr) steps_ = reducer_->steps_taken();
}

void OptimizerPart::save() {
  begin_to_count();
  keep_options();
  noted_.reset();
  states_.clear();
  bytes_.clear();
  if (!knows_states()) {
    bytes_ = to_bytes(Stateful(optimizer_));
    return;
  }
  for (const auto& [key, state] : optimizer_.state()) states_.emplace_back(key, copy_of(*state));
}

void OptimizerPart::note() {
  begin_to_count();
  keep_options();
  noted_.emplace();
  states_.clear();
  for (const auto& [key, state] : optimizer_.state()) {
    const auto tensors = tensors_of(*state);
    for (const at::Tensor* const tensor : *tensors) {
      if (tensor->defined()) noted_->note(*tensor);
    }
  }
}

Stepping OptimizerPart::stepping() const {
  const bool counts = reducer_ != nullptr && reducer_->steps_alike() && knows_states();
  const bool alone = counts && reducer_->steps_taken() == steps_ + 1 && reducer_->nothing_since_step();
  return alone ? Stepping::alone : Stepping::other;
}

// Fused kernels leave versions as they are.
bool OptimizerPart::is_ahead() const {
  return noted_ && (reducer_->steps_taken() != steps_ || noted_->changed());
}

void OptimizerPart::restore() {
  if (!bytes_.empty()) {
    from_bytes(bytes_, Stateful(optimizer_));
  } else if (!noted_) {
    optimizer_.state().clear();
    for (const auto& [key, state] : states_) optimizer_.state()[key] = copy_of(*state);
  }
  if (!noted_) begin_to_count();
  auto kept = options_.begin();
  for (auto& group : optimizer_.param_groups()) group.set_options((*kept++)->clone());
  for (const at::Tensor& parameter : parameters_of(optimizer_.param_groups()))
    parameter.mutable_grad().reset();
}

void OptimizerPart::sync(Rank root, const Scope& scope) {
  broadcast_optimizer_state(optimizer_, root, scope);
}

}  // namespace rueda::elastic
