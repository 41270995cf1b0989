// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/unit_scheduler.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/observe/training/training_record.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

std::unique_ptr<DividedParts> divide_units(const DividedParts& present, Rank copies, Runtime& runtime) {
  return std::make_unique<ModelUnits>(static_cast<const ModelUnits&>(present), copies, runtime);
}

}  // namespace

UnitScheduler::UnitScheduler(torch::nn::Module& module, const ShardedModelOptions& options, Runtime& runtime,
                             bool alone)
    : parts_(std::make_unique<ModelUnits>(module, options, alone, runtime), options.part_copies, alone,
             divide_units),
      units_(&static_cast<ModelUnits&>(parts_.parts())),
      gradients_(std::in_place, *units_),
      users_(units_->size()),
      hooks_(static_cast<GradientListener&>(*this), units_->parameters()) {}

// Nothing is left of a pass that has failed.
void UnitScheduler::begin_generation() {
  units_ = &static_cast<ModelUnits&>(parts_.parts());
  gradients_.emplace(*units_);
  order_.forget();
  forwards_ = 0;
  backward_pass_ = -1;
  for (const at::Tensor& parameter : parameters()) parameter.mutable_grad().reset();
}

void UnitScheduler::enter(std::size_t unit) {
  const bool first = unit == kRoot && users_[kRoot] == 0;
  if (first) {
    begin_pass();
  } else if (users_[kRoot] == 0 && current_backward_pass() < 0) {
    refuse(fmt::format("rank {}: the unit '{}' runs outside of a pass; call the model by ShardedModel::run()",
                       rank(), unit_at(unit).name()));
  }
  need(unit);
  ++users_[unit];
}

void UnitScheduler::leave(std::size_t unit) {
  --users_[unit];
  if (unit == kRoot && users_[kRoot] == 0 && order_.with_gradients()) ++forwards_;
  if (order_.expected() != unit) release(unit);
}

void UnitScheduler::begin_pass() {
  if (current_backward_pass() < 0 && backward_pass_ >= 0) forget_pass();  // it has failed
  for (const auto& unit : units_->all()) {
    if (!unit->gathering()) continue;
    unit->end_gather();
    unit->release();
  }
  order_.begin_pass(at::GradMode::is_enabled());
  hooks_.refresh();
}

void UnitScheduler::need(std::size_t unit) {
  if (unit_at(unit).resident() || unit_at(unit).empty()) return;
  if (unit_at(unit).present()) unit_at(unit).note_use();
  if (unit == kRoot && (*units_)[kRoot].present()) return;
  order_.note(unit);
  try {
    const PhaseScope waiting(Phase::wait);
    together([&] {
      if (!unit_at(unit).present() && !unit_at(unit).gathering())
        unit_at(unit).begin_gather(next_name(), runtime());
      const std::optional<std::size_t> next = order_.expected();
      if (next && !(*units_)[*next].present() && !(*units_)[*next].gathering())
        (*units_)[*next].begin_gather(next_name(), runtime());
      if (unit_at(unit).gathering()) unit_at(unit).end_gather();
    });
  } catch (...) {
    for (const auto& each : units_->all()) each->forget_gather();
    order_.forget();
    throw;
  }
}

void UnitScheduler::release(std::size_t unit) {
  if (users_[unit] > 0 || (unit == kRoot && forwards_ > 0)) return;
  if (unit_at(unit).gathering()) unit_at(unit).end_gather();
  unit_at(unit).release();
}

void UnitScheduler::check_root(std::size_t unit) const {
  if (unit != kRoot)
    refuse(fmt::format("rank {}: the unit '{}' returns something that is not a tensor", rank(),
                       unit_at(unit).name()));
}

void UnitScheduler::watch(const at::Tensor& output, std::size_t unit) {
  if (!output.defined() || !output.requires_grad()) return;
  output.register_hook([units = weak_from_this(), unit](const at::Tensor&) {
    if (const std::shared_ptr<UnitScheduler> self = units.lock()) self->before_backward(unit);
  });
}

void UnitScheduler::before_backward(std::size_t unit) {
  note_backward_pass();
  need(unit);
}

// In a hook of a running pass.
void UnitScheduler::note_backward_pass() {
  const int pass = current_backward_pass();
  if (pass == backward_pass_) return;
  if (backward_pass_ >= 0) {
    refuse(fmt::format(
        "rank {}: a backward pass of a ShardedModel inside another, or after one that failed. With "
        "checkpointing, use the non-reentrant kind; after a failure, run the model anew.",
        rank()));
  }
  if (gradients_->passes_done()) {
    refuse(fmt::format(
        "rank {}: a backward pass after the last of its step (backward_passes_per_step is {}). Call step() "
        "first, or raise backward_passes_per_step to the number of backward passes per step.",
        rank(), gradients_->passes_per_step()));
  }
  parts_.check_divided();
  backward_pass_ = pass;
  TrainingRecord::of_process().begin_phase(Phase::backward);
  at_end_of_backward_pass([units = weak_from_this()] {
    if (const std::shared_ptr<UnitScheduler> self = units.lock()) self->end_backward_pass();
  });
}

void UnitScheduler::before_accumulation(std::size_t index) {
  note_backward_pass();
  if (!gradients_->has(index)) return;
  const auto [unit, parameter] = units_->location(index);
  refuse(fmt::format("rank {}: parameter '{}' receives a second gradient in one backward pass", rank(),
                     unit_at(unit).parameters()[parameter].name));
}

void UnitScheduler::after_accumulation(std::size_t index) {
  if (!parameters()[index].grad().defined() || !gradients_->note(index)) return;
  const std::size_t unit = units_->location(index).unit;
  // A frozen parameter may still be needed: nothing tells the end of its use.
  const auto frozen = [](const FlatParameter::Parameter& each) { return !each.tensor.requires_grad(); };
  if (unit != kRoot && std::ranges::none_of(unit_at(unit).parameters(), frozen)) release(unit);
}

void UnitScheduler::end_backward_pass() {
  TrainingRecord& record = TrainingRecord::of_process();
  record.begin_phase(Phase::wait);
  try {
    gradients_->end_pass();
  } catch (...) {
    record.leave_phase(Phase::wait, Phase::other);
    throw;
  }
  record.begin_phase(gradients_->passes_done() ? Phase::other : Phase::forward);
  forget_pass();
}

// The backward pass is over, or has failed.
void UnitScheduler::forget_pass() {
  backward_pass_ = -1;
  forwards_ = std::max(forwards_ - 1, 0);
  gradients_->forget_pass();
  for (std::size_t unit = 0; unit < units_->size(); ++unit) release(unit);
}

void UnitScheduler::release_all() {
  forwards_ = 0;
  for (std::size_t unit = 0; unit < units_->size(); ++unit) release(unit);
}

void UnitScheduler::prepare_step() {
  release_all();
  gradients_->correct_passes();
}

GradientNorm UnitScheduler::clip(double most) {
  parts_.check_divided();
  return gradients_->clip(most);
}

}  // namespace rueda
