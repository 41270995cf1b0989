// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/gradient_sync.h"

#include <ATen/ops/mul.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/log.h"
#include "core/rueda.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/reducer/out_of_turn.h"

namespace rueda {
namespace {

// Of the memory of a gradient that is nobody else's, while autograd calls hooks: .grad and what was given to
// the accumulation.
constexpr std::size_t kHoldersInAHook = 2;

// A sum over n ranks makes n of what they have alike, a mean over n passes an n-th of what is there once.
double factor_to_reduce_again(const DistributedOptions& options, int passes, const Scope& scope) {
  const bool sums = options.op == ReduceOp::sum && !options.schedule.averages_parameters();
  return (options.sum_passes ? 1.0 : passes) / (sums ? scope.size() : 1.0);
}

// Elements that are gathered have no fixed order, and no adasum.
SparseGradients sparse_of(SparseGradients wanted, const Reduction& reduction) {
  if (reduction.op != ReduceOp::adasum && reduction.order == ReductionOrder::any) return wanted;
  if (wanted == SparseGradients::by_density) return SparseGradients::as_dense;
  return wanted == SparseGradients::as_sparse ? SparseGradients::travels_dense : wanted;
}

// What is on a device is measured there, when somebody asks.
Reduction reduction_for(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                        const Runtime& runtime) {
  Reduction reduction = reduction_of(options, runtime);
  const auto on_device = [](const at::Tensor& each) { return each.defined() && each.is_cuda(); };
  reduction.measure &= std::ranges::none_of(parameters, on_device);
  return reduction;
}

}  // namespace

GradientSync::GradientSync(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                           const Scope& scope)
    : passes_per_step_(passes_of(checked(options, scope))),
      in_backward_(synchronizes_in_backward(options)),
      sum_passes_(options.sum_passes),
      again_(factor_to_reduce_again(options, passes_per_step_, scope)),
      reduction_(reduction_for(parameters, options, scope.runtime())),
      begin_(begin_of_reductions(options, scope.runtime())),
      scope_(scope),
      sparse_(sparse_of(options.sparse, reduction_)),
      given_(parameters) {
  const std::vector<at::Tensor> unique = without_repetitions(parameters);
  const std::vector<std::string> names = names_of(unique, options, rank());
  const ReductionRound::Groups groups = groups_of(unique, options, rank());
  const ReductionRound::LowRanks low_ranks = low_ranks_of(unique, options, rank());
  std::vector<std::string> lines{describe(options, scope.runtime())};
  for (std::size_t i = 0; i < unique.size(); ++i) {
    check_movable(unique[i], names[i]);
    const DataType dtype = data_type_for(unique[i].scalar_type(), names[i]);
    const bool on_device = unique[i].is_cuda();
    if (!unique[i].is_leaf()) {
      refuse(fmt::format(
          "rank {}: parameter '{}' is the result of a computation; give the tensor it was computed from",
          rank(), names[i]));
    }
    lines.push_back(fmt::format("'{}' {} {}{}{}{}", names[i], to_string(dtype), to_string(unique[i].sizes()),
                                on_device ? " on a device" : "",
                                groups[i] ? fmt::format(" in group {}", *groups[i]) : "",
                                low_ranks[i] > 0 ? fmt::format(" as factors of rank {}", low_ranks[i]) : ""));
    parameters_.push_back({unique[i], names[i]});
  }
  const std::string prefix = scope.runtime().next_name("gradient", scope.process_set());
  check_agreement(prefix + ".agreement", "parameters of a distributed optimizer", lines, scope);
  const bool late = options.schedule.kind() == SyncSchedule::Kind::one_step_late;
  for (const char* turn : late ? std::vector{".even", ".odd"} : std::vector{""})
    flights_.emplace_back(prefix + turn, names, groups, low_ranks, reduction_, scope_);
  warnings_.emplace(names);
  if (reduction_.measure) shared_norm_.emplace(prefix + "/norm", scope);
  std::vector<GradientBuffers::Names> banks;
  for (const ReductionRound& flight : flights_) {
    GradientBuffers::Names& bank = banks.emplace_back(unique.size());
    for (std::size_t i = 0; options.device_window && i < unique.size(); ++i) bank[i] = flight.name_of(i);
  }
  window_.emplace(prefix, unique, std::move(banks), in_shards(), scope_);
  hooks_.emplace(static_cast<GradientListener&>(*this), unique);
}

void GradientSync::before_accumulation(std::size_t index) {
  std::lock_guard lock(mutex_);
  clear_up();
  if (reduced_) begin_further_pass();
  Parameter& parameter = parameters_[index];
  if (!parameter.found) parameter.found = parameter.tensor.grad().unsafeGetTensorImpl();
  if (in_shards() && pauses_ == 0) {
    check_alone(parameter);
    note_pass();
  }
  if (!parameter.complete && !flight().presence_submitted()) return;
  if (passes_.failed()) {
    refuse(fmt::format(
        "rank {}: parameter '{}' receives a gradient after a backward pass of this step that failed. Call "
        "synchronize() first, with which the step ends on all ranks, and zero_grad().",
        rank(), parameter.name));
  }
  throw OutOfTurn(fmt::format(
      "rank {}: parameter '{}' receives a gradient in a backward pass after the last of its step "
      "(backward_passes_per_step is {}). Call step() first, or raise backward_passes_per_step to the number "
      "of backward passes per step; with checkpointing, use the non-reentrant kind, which runs one pass.",
      rank(), parameter.name, passes_per_step_));
}

void GradientSync::after_accumulation(std::size_t index) {
  std::lock_guard lock(mutex_);
  if (pauses_ > 0) return;
  note_pass();
  window_->begin_pass();
  Parameter& parameter = parameters_[index];
  const bool last_pass = passes_.ended() + 1 >= passes_per_step_;
  if (!parameter.tensor.grad().defined()) return;
  if (in_shards()) {
    at::NoGradGuard no_grad;
    const int pass = std::min(passes_.ended(), passes_per_step_ - 1);
    at::Tensor gradient = reducible(std::exchange(parameter.tensor.mutable_grad(), at::Tensor()));
    const bool alone = gradient.storage().use_count() <= kHoldersInAHook;  // the sum is made in its memory
    parameter.sum.add(pass, alone ? std::move(gradient) : gradient.clone());
  }
  if (!last_pass) return;
  parameter.complete = true;
  if (begin_ == Begin::as_they_come) submit_gradient(index, 1.0, kHoldersInAHook);
}

// In a hook of a running pass.
void GradientSync::note_pass() {
  const int pass = current_backward_pass();
  if (auto running = passes_.note(pass))
    at_end_of_backward_pass([this, pass, running = std::move(running)] { end_pass(pass); });
}

// In a hook: gradients of two passes at a time have no order.
void GradientSync::check_alone(const Parameter& parameter) const {
  if (!passes_.running_beside(current_backward_pass())) return;
  refuse(
      fmt::format("rank {}: parameter '{}' receives a gradient while another backward pass runs, or after "
                  "one that failed. With reduction_order fixed the passes of a step follow one another; "
                  "after a failed one call zero_grad().",
                  rank(), parameter.name));
}

// What an earlier job has left, or a pass that failed, where nothing of it is on its way.
void GradientSync::clear_up() {
  const bool new_job = std::exchange(job_, jobs_begun()) != jobs_begun();
  if (new_job) {
    failed_in_backward_ = {};
    window_->begin_job();
  }
  if (new_job || (passes_.failed() && !passes_.running() && !flight().first())) reset();
}

// A pass after the reduction and before step(): its gradients add to the reduced ones, which all ranks have
// alike, and which shall still be the same when they are reduced with it.
void GradientSync::begin_further_pass() {
  reset();
  if (again_ == 1.0) return;
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters_) {
    const at::Tensor& grad = parameter.tensor.grad();
    if (grad.defined() && parameter.tensor.requires_grad()) grad.mul_(again_);
  }
}

// When a backward pass ends, before backward() returns. All that reduce gradients of this pass submit before
// one of them waits, so that ranks may wait for them in different orders.
void GradientSync::end_pass(int pass) {
  std::lock_guard lock(mutex_);
  passes_.end(pass, inside_another_backward_pass());
  if (passes_.unheard() && !in_shards()) hear_pass_around();
  if (begin_ == Begin::after_the_pass) {
    for (std::size_t index = 0; index < parameters_.size(); ++index) {
      if (parameters_[index].complete && waits(index)) submit_gradient(index, 1.0);
    }
  }
  if (!in_backward_ || passes_.running() || passes_.ended() < passes_per_step_) return;
  failed_in_backward_ = {};  // of a step before, which nobody has asked for
  keep_failure_of([this] { submit_step(true); });
  at_end_of_backward_pass([this] { wait_in_backward(); });
}

// Reentrant checkpoints, of which the last may be still to come: the pass around them ends the step.
void GradientSync::hear_pass_around() {
  in_backward_pass_around(alive_, [this] {
    std::lock_guard lock(mutex_);
    if (passes_.unheard() && pauses_ == 0) note_pass();
  });
}

// All others of the pass have submitted. They shall have waited, too, before a failure is thrown.
void GradientSync::wait_in_backward() {
  std::lock_guard lock(mutex_);
  if (failed_in_backward_.ok()) keep_failure_of([this] { reduce_step(true); });
  if (!failed_in_backward_.ok()) at_end_of_backward_pass([this] { throw_failure(); });
}

void GradientSync::keep_failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    failed_in_backward_ = {error.code(), error.what()};
  }
}

void GradientSync::refresh_hooks() {
  std::lock_guard lock(mutex_);
  clear_up();
  const bool unheard = in_backward_ && passes_.unheard();
  if (!passes_.running() && (unheard || passes_.failed())) {
    reduce_step(false);  // other ranks may wait for it
    reset();
    for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
    if (unheard) {
      refuse(fmt::format(
          "rank {}: the gradients of the last backward pass were not reduced in it: all of it that reached "
          "parameters ran inside of another (reentrant checkpoints, or a backward() in a hook). Use the "
          "non-reentrant kind.",
          rank()));
    }
    log(LogLevel::warning, "rank {}: a step of which a backward pass has failed is left out here", rank());
  }
  hooks_->refresh();
}

bool GradientSync::is_captured() const {
  const Scope scope = scope_.get();
  return scope.runtime().captures().capturing(scope.process_set());
}

void GradientSync::pause(int change) {
  std::lock_guard lock(mutex_);
  pauses_ += change;
}

// Until the step is over the gradient belongs to this reduction.
void GradientSync::claim(const Parameter& parameter) {
  if (claimed_.claim(parameter.tensor)) return;
  refuse(fmt::format(
      "rank {}: the gradient of parameter '{}' is being reduced by another optimizer or reducer. Give each "
      "parameter to one of them, or step() with one before a backward pass for the other.",
      rank(), parameter.name));
}

// What this rank has of this step, to be reduced in place. What is in .grad beside the passes was put there
// by hand, or by passes that went unheard.
at::Tensor GradientSync::gradient_of(Parameter& parameter) const {
  const at::Tensor& grad = parameter.tensor.grad();
  if (!in_shards()) return reducible(grad);
  at::Tensor sum = parameter.sum.take(passes_per_step_);
  if (!grad.defined()) return sum;
  at::Tensor other = reducible(grad).to(sum_type(grad.scalar_type()));
  return sum.defined() ? sum.add_(other) : other;
}

// Whether there is a gradient that is to be submitted.
bool GradientSync::waits(std::size_t index) const {
  const Parameter& parameter = parameters_[index];
  return !flight().has(index) && (parameter.tensor.grad().defined() || parameter.sum.passes() > 0);
}

// The parameter's gradient, which is multiplied by `factor` before. While it is reduced it is .grad too,
// unless it is of another type.
void GradientSync::submit_gradient(std::size_t index, double factor, std::size_t holders) {
  at::NoGradGuard no_grad;
  Parameter& parameter = parameters_[index];
  claim(parameter);
  const at::Tensor& own = parameter.tensor.grad();
  parameter.sparse_dimensions = own.defined() && own.is_sparse() ? own.sparse_dim() : 0;
  const bool may_stay = sparse_ == SparseGradients::by_density || sparse_ == SparseGradients::as_sparse;
  if (may_stay && !flight().in_group(index) && is_of_rows(own)) {
    return flight().hold(index, (factor == 1.0 ? own : at::mul(own, factor)).coalesce());
  }
  at::Tensor gradient = gradient_of(parameter);
  // One that was there before the step is the program's; it may be a part of one buffer for all gradients.
  const bool kept = gradient.is_same(own) && parameter.found == own.unsafeGetTensorImpl();
  gradient = window_->place(flying_, index, gradient, factor, holders, kept);
  at::Tensor& grad = parameter.tensor.mutable_grad();
  if (in_shards() && gradient.scalar_type() != parameter.tensor.scalar_type()) {
    grad.reset();
  } else if (!gradient.is_same(grad)) {
    grad = gradient;
  }
  submit(index, std::move(gradient));
}

void GradientSync::submit(std::size_t index, at::Tensor gradient) {
  const GradientPlacement placement = window_->placement(flying_, index, gradient);
  flight().submit(index, std::move(gradient), placement);
}

}  // namespace rueda
