// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/unit_gradients.h"

#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {
namespace {

constexpr double kTiny = 1e-6;  // as clip_grad_norm_ of LibTorch

}  // namespace

UnitGradients::UnitGradients(ModelUnits& units)
    : units_(units),
      reduction_{.op = units.options().op,
                 .postscale_factor = 1.0 / units.options().backward_passes_per_step,
                 .compression = units.options().compression},
      passes_per_step_(units.options().backward_passes_per_step),
      states_(units.size()),
      came_(units.parameters().size()) {}

bool UnitGradients::has(std::size_t index) const {
  return states_[units_.location(index).unit].submitted || came_[index] != 0;
}

bool UnitGradients::note(std::size_t index) {
  came_[index] = 1;
  const std::size_t unit = units_.location(index).unit;
  if (!complete(unit)) return false;
  reduce(unit);
  return true;
}

bool UnitGradients::complete(std::size_t unit) const {
  for (std::size_t i = 0; i < units_[unit].parameters().size(); ++i) {
    const std::size_t index = units_.first(unit) + i;
    if (came_[index] == 0 && units_.parameters()[index].requires_grad()) return false;
  }
  return true;
}

bool UnitGradients::has_any(std::size_t unit) const {
  const auto first = came_.begin() + static_cast<std::ptrdiff_t>(units_.first(unit));
  const auto last = first + static_cast<std::ptrdiff_t>(units_[unit].parameters().size());
  return std::any_of(first, last, [](std::uint8_t flag) { return flag != 0; });
}

// Under a name of the unit: ranks may come to the ends of units in different orders.
void UnitGradients::reduce(std::size_t unit) {
  states_[unit].submitted = true;
  states_[unit].reduction = reducescatter_async(
      units_[unit].take_gradients(), units_.name_of("gradients", unit), reduction_, units_.runtime());
  for (std::size_t other = 0; other < units_.size(); ++other) {
    if (states_[other].reduction && states_[other].reduction->done()) collect(other);  // memory is free again
  }
}

void UnitGradients::reduce_rest() {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (!states_[unit].submitted && has_any(unit)) reduce(unit);
  }
}

void UnitGradients::collect(std::size_t unit) {
  units_[unit].add_gradient(std::exchange(states_[unit].reduction, std::nullopt)->wait());
}

// If no rank has a gradient there is none; if only others have one, this rank adds zeros.
void UnitGradients::end_pass() {
  const at::NoGradGuard no_grad;
  reduce_rest();
  together([&] {
    allreduce_async(units_.next_name(), view(came_), view(came_), {ReduceOp::max}, units_.runtime()).wait();
  });
  reduce_rest();
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (states_[unit].reduction) collect(unit);
  }
  bool any = false;
  for (std::size_t index = 0; index < came_.size(); ++index) {
    if (came_[index] == 0) continue;
    const ModelUnits::Location location = units_.location(index);
    units_[location.unit].show_gradient(location.parameter);
    any = true;
  }
  if (any) ++passes_;
}

void UnitGradients::forget_pass() {
  std::ranges::fill(came_, 0);
  for (const at::Tensor& parameter : units_.parameters()) parameter.mutable_grad().reset();
  for (State& state : states_) state = {};
}

void UnitGradients::correct_passes() {
  if (passes_ == 0 || passes_ >= passes_per_step_) return;
  const at::NoGradGuard no_grad;
  for (const auto& unit : units_.all()) unit->scale_gradient(static_cast<double>(passes_per_step_) / passes_);
  passes_ = passes_per_step_;
}

GradientNorm UnitGradients::clip(double most) {
  const at::NoGradGuard no_grad;
  correct_passes();
  at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kDouble).device(units_.device()));
  for (const auto& unit : units_.all()) {
    if (const at::Tensor own = unit->gradient_square(); own.defined()) sum.add_(own);
  }
  together([&] { allreduce_(sum, units_.next_name(), {ReduceOp::sum}, units_.runtime()); });
  const at::Tensor norm = sum.sqrt_().squeeze();
  if (!norm.is_cpu()) {
    const at::Tensor factor = norm.add(kTiny).reciprocal_().mul_(most);
    for (const auto& unit : units_.all()) unit->scale_gradient(at::where(factor.lt(1.0), factor, 1.0));
    return GradientNorm(norm.to(at::kFloat));
  }
  const auto value = norm.item<double>();
  if (const double factor = most / (value + kTiny); factor < 1.0) {
    for (const auto& unit : units_.all()) unit->scale_gradient(factor);
  }
  return value;
}

void UnitGradients::forget() {
  passes_ = 0;
  for (const auto& unit : units_.all()) unit->forget_gradients();
}

}  // namespace rueda
