// SPDX-License-Identifier: Apache-2.0
// What UnitScheduler do in a pass and in a step; unit_scheduler.cc makes them.
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/sharding/step_barrier.h"
#include "frameworks/torch/sharding/unit_scheduler.h"

namespace rueda {
namespace {

constexpr double kTiny = 1e-6;  // as clip_grad_norm_ of LibTorch

// Does what all ranks do at the same place of a pass.
template <class Action>
void together(Action action) {
  try {
    action();
  } catch (const Mismatch& error) {
    throw Mismatch(Status::mismatch(
        fmt::format("the ranks run different units of a ShardedModel, or different numbers of passes; where "
                    "units are gathered, every rank runs the same in the same order. {}",
                    error.what())));
  }
}

}  // namespace

std::string UnitScheduler::next_name() { return fmt::format("{}.{}", scope_, operations_++); }

void UnitScheduler::enter(std::size_t unit) {
  const bool first = unit == kRoot && states_[kRoot].users == 0;
  if (first) {
    begin_pass();
  } else if (states_[kRoot].users == 0 && current_backward_pass() < 0) {
    refuse(fmt::format("rank {}: the unit '{}' runs outside of a pass; call the model by ShardedModel::run()",
                       rank(), units_[unit]->name()));
  }
  need(unit);
  ++states_[unit].users;
}

void UnitScheduler::leave(std::size_t unit) {
  --states_[unit].users;
  if (unit == kRoot && states_[kRoot].users == 0 && with_gradients_) ++forwards_;
  if (expected() != unit) release(unit);
}

void UnitScheduler::begin_pass() {
  if (current_backward_pass() < 0 && backward_pass_ >= 0) forget_pass();  // it has failed
  for (const auto& unit : units_) {
    if (!unit->gathering()) continue;
    unit->end_gather();
    unit->release();
  }
  last_needs_[with_gradients_ ? 1 : 0] = std::move(needs_);
  needs_.clear();
  with_gradients_ = at::GradMode::is_enabled();
  as_expected_ = true;
  hooks_->refresh();
}

std::optional<std::size_t> UnitScheduler::expected() const {
  const std::vector<std::size_t>& last = last_needs_[with_gradients_ ? 1 : 0];
  if (!as_expected_ || needs_.size() >= last.size()) return std::nullopt;
  return last[needs_.size()];
}

void UnitScheduler::need(std::size_t unit) {
  if (units_[unit]->resident() || units_[unit]->empty()) return;
  if (units_[unit]->present()) units_[unit]->note_use();
  if (unit == kRoot && units_[kRoot]->present()) return;
  as_expected_ = expected() == unit;
  needs_.push_back(unit);
  try {
    together([&] {
      if (!units_[unit]->present() && !units_[unit]->gathering())
        units_[unit]->begin_gather(next_name(), runtime());
      const std::optional<std::size_t> next = expected();
      if (next && !units_[*next]->present() && !units_[*next]->gathering())
        units_[*next]->begin_gather(next_name(), runtime());
      if (units_[unit]->gathering()) units_[unit]->end_gather();
    });
  } catch (...) {
    for (const auto& each : units_) each->forget_gather();
    last_needs_ = {};
    needs_.clear();
    as_expected_ = false;
    throw;
  }
}

void UnitScheduler::release(std::size_t unit) {
  if (states_[unit].users > 0 || (unit == kRoot && forwards_ > 0)) return;
  if (units_[unit]->gathering()) units_[unit]->end_gather();
  units_[unit]->release();
}

void UnitScheduler::check_root(std::size_t unit) const {
  if (unit != kRoot)
    refuse(fmt::format("rank {}: the unit '{}' returns something that is not a tensor", rank(),
                       units_[unit]->name()));
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
  if (passes_ >= passes_per_step_) {
    refuse(fmt::format(
        "rank {}: a backward pass after the last of its step (backward_passes_per_step is {}). Call step() "
        "first, or raise backward_passes_per_step to the number of backward passes per step.",
        rank(), passes_per_step_));
  }
  backward_pass_ = pass;
  at_end_of_backward_pass([units = weak_from_this()] {
    if (const std::shared_ptr<UnitScheduler> self = units.lock()) self->end_backward_pass();
  });
}

void UnitScheduler::before_accumulation(std::size_t index) {
  note_backward_pass();
  const auto [unit, parameter] = places_[index];
  if (!states_[unit].submitted && came_[index] == 0) return;
  refuse(fmt::format("rank {}: parameter '{}' receives a second gradient in one backward pass", rank(),
                     units_[unit]->parameters()[parameter].name));
}

void UnitScheduler::after_accumulation(std::size_t index) {
  if (!all_[index].grad().defined()) return;
  came_[index] = 1;
  const std::size_t unit = places_[index].unit;
  if (!complete(unit)) return;
  reduce(unit);
  // What is frozen may still be needed: nothing tells when not.
  const auto frozen = [](const FlatParameter::Parameter& each) { return !each.tensor.requires_grad(); };
  if (unit != kRoot && std::ranges::none_of(units_[unit]->parameters(), frozen)) release(unit);
}

bool UnitScheduler::complete(std::size_t unit) const {
  for (std::size_t i = 0; i < units_[unit]->parameters().size(); ++i) {
    const std::size_t index = states_[unit].first + i;
    if (came_[index] == 0 && all_[index].requires_grad()) return false;
  }
  return true;
}

// Under a name of the unit: ranks may come to the ends of units in different orders.
void UnitScheduler::reduce(std::size_t unit) {
  states_[unit].submitted = true;
  states_[unit].reduction = reducescatter_async(
      units_[unit]->take_gradients(), fmt::format("{}.gradients.{}", scope_, unit), reduction_, runtime());
  for (std::size_t other = 0; other < units_.size(); ++other) {
    if (states_[other].reduction && states_[other].reduction->done()) collect(other);  // memory is free again
  }
}

void UnitScheduler::collect(std::size_t unit) {
  units_[unit]->add_gradient(std::exchange(states_[unit].reduction, std::nullopt)->wait());
}

// Where no rank has a gradient there is none; where only others have one this rank adds zeros.
void UnitScheduler::end_backward_pass() {
  const at::NoGradGuard no_grad;
  auto has_gradient = [&](std::size_t unit) {
    const auto first = came_.begin() + static_cast<std::ptrdiff_t>(states_[unit].first);
    const auto last = first + static_cast<std::ptrdiff_t>(units_[unit]->parameters().size());
    return std::any_of(first, last, [](std::uint8_t flag) { return flag != 0; });
  };
  auto reduce_rest = [&] {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      if (!states_[unit].submitted && has_gradient(unit)) reduce(unit);
    }
  };
  reduce_rest();
  together(
      [&] { allreduce_async(next_name(), view(came_), view(came_), {ReduceOp::max}, runtime()).wait(); });
  reduce_rest();
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (states_[unit].reduction) collect(unit);
  }
  bool any = false;
  for (std::size_t index = 0; index < all_.size(); ++index) {
    if (came_[index] == 0) continue;
    units_[places_[index].unit]->show_gradient(places_[index].parameter);
    any = true;
  }
  if (any) ++passes_;
  forget_pass();
}

// The backward pass is over, or has failed.
void UnitScheduler::forget_pass() {
  backward_pass_ = -1;
  forwards_ = std::max(forwards_ - 1, 0);
  std::ranges::fill(came_, 0);
  for (at::Tensor& parameter : all_) parameter.mutable_grad().reset();
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    states_[unit].submitted = false;
    states_[unit].reduction.reset();
    release(unit);
  }
}

// Each pass was divided by passes_per_step_; this makes it the number of passes that there were.
void UnitScheduler::correct_passes() {
  if (passes_ > 0 && passes_ < passes_per_step_) {
    const at::NoGradGuard no_grad;
    for (const auto& unit : units_) unit->scale_gradient(static_cast<double>(passes_per_step_) / passes_);
    passes_ = passes_per_step_;
  }
}

GradientNorm UnitScheduler::clip(double most) {
  const at::NoGradGuard no_grad;
  correct_passes();
  at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kDouble).device(*device_));
  for (const auto& unit : units_) {
    if (const at::Tensor own = unit->gradient_square(); own.defined()) sum.add_(own);
  }
  together([&] { allreduce_(sum, next_name(), {ReduceOp::sum}, runtime()); });
  const at::Tensor norm = sum.sqrt_().squeeze();
  if (!norm.is_cpu()) {
    const at::Tensor factor = norm.add(kTiny).reciprocal_().mul_(most);
    for (const auto& unit : units_) unit->scale_gradient(at::where(factor.lt(1.0), factor, 1.0));
    return GradientNorm(norm.to(at::kFloat));
  }
  const auto value = norm.item<double>();
  if (const double factor = most / (value + kTiny); factor < 1.0) {
    for (const auto& unit : units_) unit->scale_gradient(factor);
  }
  return value;
}

Status UnitScheduler::objection_to(const Groups& stepped) const {
  std::vector<at::Tensor> leaves;
  for (const auto& group : stepped) leaves.insert(leaves.end(), group.params().begin(), group.params().end());
  if (!std::ranges::equal(leaves, stepped_, [](const at::Tensor& one, const at::Tensor& other) {
        return one.is_same(other);
      })) {
    return Status::invalid_argument(
        fmt::format("rank {}: the parameter groups of a ShardedModel have changed. Make a new one.", rank()));
  }
  for (const auto& unit : units_) {
    const std::optional<std::size_t> moved = unit->moved_parameter();
    if (!moved) continue;
    return Status::invalid_argument(fmt::format(
        "rank {}: parameter '{}' has moved to other memory since the ShardedModel was made (by "
        "torch::load, to(), set_data() or another of its kind). Load and prepare the model before "
        "making it, or use load_state_dict().",
        rank(), unit->parameters()[*moved].name));
  }
  return {};
}

void UnitScheduler::release_all() {
  forwards_ = 0;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) release(unit);
}

void UnitScheduler::begin_step(const Groups& stepped) {
  release_all();
  correct_passes();
  const Status own = objection_to(stepped);
  together([&] { barrier_before(next_name(), "step", "a ShardedModel", own, runtime()); });
}

void UnitScheduler::end_step(bool well) {
  passes_ = 0;
  mark_parameters_changed();
  barrier_after_step(next_name(), well, runtime());
}

void UnitScheduler::mark_parameters_changed() {
  for (const at::Tensor& parameter : all_) mark_changed(parameter);
}

void UnitScheduler::forget_gradients() {
  passes_ = 0;
  for (const auto& unit : units_) unit->forget_gradients();
}

}  // namespace rueda
