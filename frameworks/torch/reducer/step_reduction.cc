// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/step_reduction.h"

#include <ATen/ops/mul.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/reducer/gradient_options.h"

namespace rueda {
namespace {

// Elements that are gathered have no fixed order, and no adasum.
SparseGradients sparse_of(SparseGradients wanted, const Reduction& reduction) {
  if (reduction.op != ReduceOp::adasum && reduction.order == ReductionOrder::any) return wanted;
  if (wanted == SparseGradients::by_density) return SparseGradients::as_dense;
  return wanted == SparseGradients::as_sparse ? SparseGradients::travels_dense : wanted;
}

}  // namespace

StepReduction::StepReduction(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                             const Reduction& reduction, const Scope& scope)
    : scope_(scope), sparse_(sparse_of(options.sparse, reduction)) {
  take_over(without_repetitions(parameters), options, reduction);
}

void StepReduction::take_over(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                              const Reduction& reduction) {
  const Scope scope = this->scope();
  const std::vector<std::string> names = names_of(parameters, options, rank());
  const ReductionRound::Groups groups = groups_of(parameters, options, rank());
  const std::vector<ChosenHook> hooks = hooks_of(parameters, options, rank());
  std::vector<std::string> lines{describe(options, scope.runtime())};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    check_movable(parameters[i], names[i]);
    const DataType dtype = data_type_for(parameters[i].scalar_type(), names[i]);
    if (!parameters[i].is_leaf()) {
      refuse(fmt::format(
          "rank {}: parameter '{}' is the result of a computation; give the tensor it was computed from",
          rank(), names[i]));
    }
    lines.push_back(fmt::format("'{}' {} {}{}{}{}", names[i], to_string(dtype),
                                to_string(parameters[i].sizes()),
                                parameters[i].is_cuda() ? " on a device" : "",
                                groups[i] ? fmt::format(" in group {}", *groups[i]) : "", hooks[i].words));
    parameters_.push_back({parameters[i], names[i]});
  }
  std::vector<ReductionRound::Parameter> reduced;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    reduced.push_back({names[i], parameters[i], hooks[i].make});
  const std::string prefix = scope.runtime().next_name("gradient", scope.process_set());
  check_agreement(prefix + ".agreement", "parameters of a distributed optimizer", lines, scope);
  rounds_ = make_rounds(options.schedule.kind(), [&](const char* turn) {
    return ReductionRound(prefix + turn, reduced, groups, reduction, scope_);
  });
  warnings_.emplace(names);
  if (reduction.measure) norm_.emplace(prefix + "/norm", scope);
  accumulation_ = make_accumulation(reduction.order, passes_of(options), parameters);
  std::vector<GradientBuffers::Names> banks;
  for (const ReductionRound& round : rounds_->all()) {
    GradientBuffers::Names& bank = banks.emplace_back(parameters.size());
    for (std::size_t i = 0; options.device_window && i < parameters.size(); ++i) bank[i] = round.name_of(i);
  }
  buffers_.emplace(prefix, parameters, std::move(banks), is_sequential(), scope_);
}

std::vector<at::Tensor> StepReduction::tensors() const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(parameters_.size());
  for (const Parameter& parameter : parameters_) tensors.push_back(parameter.tensor);
  return tensors;
}

void StepReduction::before_accumulation(std::size_t index) {
  Parameter& parameter = parameters_[index];
  if (!parameter.found) parameter.found = parameter.tensor.grad().unsafeGetTensorImpl();
}

bool StepReduction::add(std::size_t index, int pass, bool last) {
  Parameter& parameter = parameters_[index];
  if (!parameter.tensor.grad().defined()) return false;
  accumulation_->add(index, pass);
  parameter.complete |= last;
  return true;
}

// Until the step is over the gradient belongs to this reduction.
void StepReduction::claim(const Parameter& parameter) {
  if (owned_.claim(parameter.tensor)) return;
  refuse(fmt::format(
      "rank {}: the gradient of parameter '{}' is being reduced by another optimizer or reducer. Give each "
      "parameter to one of them, or step() with one before a backward pass for the other.",
      rank(), parameter.name));
}

// Whether there is a gradient that is to be submitted.
bool StepReduction::waits(std::size_t index) const {
  return !rounds_->current().has(index) &&
         (parameters_[index].tensor.grad().defined() || accumulation_->holds(index));
}

void StepReduction::submit(std::size_t index, double factor, std::size_t holders) {
  const at::NoGradGuard no_grad;
  Parameter& parameter = parameters_[index];
  ReductionRound& round = rounds_->current();
  claim(parameter);
  const at::Tensor& own = parameter.tensor.grad();
  parameter.sparse_dimensions = own.defined() && own.is_sparse() ? own.sparse_dim() : 0;
  const bool may_stay = sparse_ == SparseGradients::by_density || sparse_ == SparseGradients::as_sparse;
  if (may_stay && !round.in_group(index) && is_of_rows(own))
    return round.hold(index, (factor == 1.0 ? own : at::mul(own, factor)).coalesce());
  const at::Tensor gradient = accumulation_->take(index);
  // One that was there before the step is the program's; it may be a part of one buffer for all gradients.
  const bool kept = gradient.is_same(own) && parameter.found == own.unsafeGetTensorImpl();
  PlacedGradient placed = buffers_->place(rounds_->number(), index, gradient, factor, holders, kept);
  accumulation_->show(index, placed.tensor);
  round.submit(index, std::move(placed));
}

void StepReduction::submit_complete() {
  for (std::size_t index = 0; index < size(); ++index) {
    if (complete(index) && waits(index)) submit(index, 1.0);
  }
}

void StepReduction::announce(double factor) {
  ReductionRound& round = rounds_->current();
  for (std::size_t index = 0; index < size(); ++index) {
    // A frozen parameter may still have a gradient, of an earlier step.
    if (parameters_[index].tensor.requires_grad() && waits(index)) submit(index, factor);
  }
  for (std::size_t index = 0; index < size(); ++index) {
    if (!round.submitted(index) && round.group_begun(index)) submit_stand_in(index);
  }
  round.submit_presence();
}

void StepReduction::submit_stand_in(std::size_t index) {
  const at::NoGradGuard no_grad;
  claim(parameters_[index]);
  rounds_->current().submit_stand_in(index, buffers_->zeros(rounds_->number(), index));
}

// Submits gradients that had to wait for the counts of all ranks: sparse gradients, and zeros if another rank
// has a gradient and this one has none.
void StepReduction::submit_held(const std::vector<float>& holders) {
  const at::NoGradGuard no_grad;
  ReductionRound& round = rounds_->current();
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < size(); ++i) {
    const bool here = round.has(i) && !round.stands_in(i);
    if (!here && holders[i] > 0.0F && parameters_[i].tensor.requires_grad()) missing.push_back(i);
    if (is_gathered(i, holders)) {
      round.gather(i, parameters_[i].tensor);
    } else if (round.held(i).defined()) {
      round.submit(i, buffers_->place(rounds_->number(), i, reducible(round.held(i)), 1.0, 1));
    } else if (!round.submitted(i) && round.due(i, holders)) {
      submit_stand_in(i);
    }
  }
  warnings_->missing(rank(), missing);
  if (std::ranges::all_of(holders, [](float count) { return count == 0.0F; })) warnings_->nothing(rank());
}

// Whether the elements that the ranks have of a sparse gradient are gathered, and nothing is reduced.
bool StepReduction::is_gathered(std::size_t index, const std::vector<float>& holders) const {
  constexpr float kFew = 0.25F;
  const float share = sparse_ == SparseGradients::as_sparse ? ReductionRound::kDense : kFew;
  return holders[index] > 0.0F && rounds_->current().is_sparse(index, share);
}

// The new value of .grad.
at::Tensor StepReduction::result_of(std::size_t index) const {
  const Parameter& parameter = parameters_[index];
  const at::Tensor& reduced = rounds_->current().memory(index);
  const bool sparse_again =
      sparse_ == SparseGradients::as_sparse || sparse_ == SparseGradients::travels_dense;
  if (sparse_again && parameter.sparse_dimensions > 0 && !reduced.is_sparse())
    return reduced.to_sparse(parameter.sparse_dimensions);
  return accumulation_->result(index, reduced);
}

// The step's gradients go on by themselves: .grad is free for those of the step before.
void StepReduction::detach() {
  for (std::size_t i = 0; i < size(); ++i) {
    const ReductionRound& round = rounds_->current();
    if (round.has(i) && !round.stands_in(i)) parameters_[i].tensor.mutable_grad().reset();
  }
  owned_.release();
}

bool StepReduction::turn() {
  return rounds_->turn([this] { detach(); });
}

Status StepReduction::finish() {
  const at::NoGradGuard no_grad;
  ReductionRound& round = rounds_->current();
  std::vector<float> holders;
  Status status = round.holders(holders);
  if (status.ok()) submit_held(holders);
  const Status reduced = round.wait();
  if (status.ok()) status = reduced;
  if (status.ok()) put_results(holders);
  // By all, also where it has failed: the others wait for it.
  if (norm_) {
    norm_->measure(status.ok() ? round.share_of_square_sum() : std::numeric_limits<double>::quiet_NaN());
  }
  return status;
}

void StepReduction::put_results(const std::vector<float>& holders) {
  const ReductionRound& round = rounds_->current();
  for (std::size_t i = 0; i < size(); ++i)
    buffers_->note_result(rounds_->number(), i, round.memory(i), round.takes_window(i));
  buffers_->note_results();
  for (std::size_t i = 0; i < size(); ++i) {
    if (holders[i] == 0.0F) continue;
    const at::Tensor result = result_of(i);
    at::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (!grad.is_same(result)) grad = result;
  }
}

void StepReduction::reset() {
  ReductionRound& round = rounds_->current();
  for (std::size_t i = 0; i < size(); ++i) {
    Parameter& parameter = parameters_[i];
    // It is written until it is done, whoever holds it.
    if (round.submitted(i) && round.in_flight(i) && parameter.tensor.grad().is_same(round.memory(i)))
      parameter.tensor.mutable_grad().reset();
    parameter.complete = false;
    parameter.found.reset();
  }
  accumulation_->reset();
  round.clear();
  owned_.release();
}

void StepReduction::show_local_gradients() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < size(); ++i) {
    const at::Tensor& parameter = parameters_[i].tensor;
    if (rounds_->current().has(i) || !accumulation_->holds(i)) continue;
    parameter.mutable_grad() = accumulation_->take(i).to(parameter.scalar_type());
  }
}

void StepReduction::scale_gradients(double factor) const {
  if (factor == 1.0) return;
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters_) {
    const at::Tensor& grad = parameter.tensor.grad();
    if (grad.defined() && parameter.tensor.requires_grad()) grad.mul_(factor);
  }
}

void StepReduction::release_gradients() const {
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
    if (gradient.defined() && buffers_->has_alone(index, gradient)) gradient.reset();
  }
}

}  // namespace rueda
