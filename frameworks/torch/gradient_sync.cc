// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_sync.h"

#include <ATen/ops/mul.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "core/base/log.h"
#include "core/rueda.h"
#include "frameworks/torch/agreement.h"
#include "frameworks/torch/tensor_adapter.h"

namespace rueda {
namespace {

// Of the memory of a gradient that is nobody else's, while autograd calls hooks: .grad and what was given to
// the accumulation.
constexpr std::size_t kHoldersInAHook = 2;

}  // namespace

GradientSync::GradientSync(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                           const Scope& scope)
    : passes_per_step_(passes_of(checked(options, scope))),
      in_backward_(synchronizes_in_backward(options)),
      sum_passes_(options.sum_passes),
      reduction_(reduction_of(options, scope.runtime())),
      begin_(begin_of_reductions(options, scope.runtime())),
      scope_(scope),
      sparse_by_density_(options.sparse == SparseGradients::by_density && reduction_.op != ReduceOp::adasum &&
                         reduction_.order == ReductionOrder::any),
      given_(parameters) {
  const std::vector<at::Tensor> unique = without_repetitions(parameters);
  const std::vector<std::string> names = names_of(unique, options, rank());
  const GradientFlight::Groups groups = groups_of(unique, options, rank());
  std::vector<std::string> lines{describe(options, scope.runtime())};
  for (std::size_t i = 0; i < unique.size(); ++i) {
    const ConstTensorView view = read_view(unique[i], names[i]);
    if (!unique[i].is_leaf()) {
      refuse(fmt::format(
          "rank {}: parameter '{}' is the result of a computation; give the tensor it was computed from",
          rank(), names[i]));
    }
    lines.push_back(fmt::format("'{}' {} {}{}", names[i], to_string(view.dtype), to_string(view.shape),
                                groups[i] ? fmt::format(" in group {}", *groups[i]) : ""));
    parameters_.push_back({unique[i], names[i]});
  }
  const std::string prefix = scope.runtime().next_name("gradient", scope.process_set());
  check_agreement(prefix + ".agreement", "parameters of a distributed optimizer", lines, scope);
  const bool late = options.schedule.kind() == SyncSchedule::Kind::one_step_late;
  for (const char* turn : late ? std::vector{".even", ".odd"} : std::vector{""})
    flights_.emplace_back(prefix + turn, names, groups, reduction_, scope_);
  warnings_.emplace(names);
  if (reduction_.measure) shared_norm_.emplace(prefix + "/norm", scope);
  window_.emplace(unique, in_shards(), static_cast<int>(flights_.size()));
  hooks_.emplace(static_cast<GradientListener&>(*this), unique);
}

void GradientSync::before_accumulation(std::size_t index) {
  std::lock_guard lock(mutex_);
  if (reduced_) reset();
  const Parameter& parameter = parameters_[index];
  if (in_shards()) {
    check_alone(parameter);
    note_pass();
  }
  if (!parameter.complete) return;
  refuse(fmt::format(
      "rank {}: parameter '{}' receives a gradient in a backward pass after the last of its step "
      "(backward_passes_per_step is {}). Call step() first, or raise backward_passes_per_step to the number "
      "of backward passes per step; with checkpointing, use the non-reentrant kind, which runs one pass.",
      rank(), parameter.name, passes_per_step_));
}

void GradientSync::after_accumulation(std::size_t index) {
  std::lock_guard lock(mutex_);
  note_pass();
  window_->begin_pass();
  Parameter& parameter = parameters_[index];
  const bool last_pass = passes_ + 1 >= passes_per_step_;
  if (!parameter.tensor.grad().defined()) return;
  if (in_shards()) {
    at::NoGradGuard no_grad;
    const int pass = std::min(passes_, passes_per_step_ - 1);
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
  if (running_.insert(pass).second) at_end_of_backward_pass([this, pass] { count_pass(pass); });
}

// In a hook: gradients of two passes at a time have no order.
void GradientSync::check_alone(const Parameter& parameter) const {
  const int pass = current_backward_pass();
  const auto other = std::ranges::find_if(running_, [pass](int each) { return each != pass; });
  if (other == running_.end()) return;
  refuse(
      fmt::format("rank {}: parameter '{}' receives a gradient while another backward pass runs, or after "
                  "one that failed. With reduction_order fixed the passes of a step follow one another; "
                  "after a failed one call zero_grad().",
                  rank(), parameter.name));
}

// When a backward pass ends, before backward() returns.
void GradientSync::count_pass(int pass) {
  if (!pass_ended(pass)) return;
  std::lock_guard lock(mutex_);
  try {
    reduce_step(true);
  } catch (const Error& error) {  // through autograd it would come out as an exception of another class
    failed_in_backward_ = {error.code(), error.what()};
  }
}

// Whether the step's gradients are to be waited for now.
bool GradientSync::pass_ended(int pass) {
  std::lock_guard lock(mutex_);
  if (running_.erase(pass) != 0) ++passes_;
  if (begin_ == Begin::after_the_pass) {
    for (std::size_t index = 0; index < parameters_.size(); ++index) {
      if (parameters_[index].complete && waits(index)) submit_gradient(index, 1.0);
    }
  }
  return in_backward_ && running_.empty() && passes_ >= passes_per_step_;
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
  if (sparse_by_density_ && !flight().in_group(index) && is_of_rows(own)) {
    return flight().hold(index, (factor == 1.0 ? own : at::mul(own, factor)).coalesce());
  }
  at::Tensor gradient = window_->place(index, gradient_of(parameter), factor, holders);
  at::Tensor& grad = parameter.tensor.mutable_grad();
  if (in_shards() && gradient.scalar_type() != parameter.tensor.scalar_type()) {
    grad.reset();
  } else if (!gradient.is_same(grad)) {
    grad = gradient;
  }
  flight().submit(index, std::move(gradient));
}

void GradientSync::show_local_gradients() {
  std::lock_guard lock(mutex_);
  at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    Parameter& parameter = parameters_[index];
    if (flight().has(index) || parameter.sum.passes() == 0) continue;
    parameter.tensor.mutable_grad() = gradient_of(parameter).to(parameter.tensor.scalar_type());
  }
}

void GradientSync::submit_rest() {
  const double factor = correction();
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    // A frozen parameter may still have a gradient, of an earlier step.
    if (parameters_[index].tensor.requires_grad() && waits(index)) submit_gradient(index, factor);
  }
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (!flight().submitted(index) && flight().group_begun(index)) submit_stand_in(flight(), index);
  }
}

void GradientSync::submit_stand_in(GradientFlight& flight, std::size_t index) {
  const at::NoGradGuard no_grad;
  claim(parameters_[index]);
  flight.submit_stand_in(index, window_->zeros(index));
}

// What had to wait for what all ranks have: sparse gradients, and zeros where another rank has a gradient and
// this one has none.
void GradientSync::submit_held(GradientFlight& flight, const std::vector<float>& holders) {
  const at::NoGradGuard no_grad;
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool here = flight.has(i) && !flight.stands_in(i);
    if (!here && holders[i] > 0.0F && parameters_[i].tensor.requires_grad()) missing.push_back(i);
    if (flight.stays_sparse(i)) {
      flight.gather(i, parameters_[i].tensor);
    } else if (flight.held(i).defined()) {
      flight.submit(i, window_->place(i, reducible(flight.held(i)), 1.0, 1));
    } else if (!flight.submitted(i) && flight.due(i, holders)) {
      submit_stand_in(flight, i);
    }
  }
  warnings_->missing(rank(), missing);
  if (std::ranges::all_of(holders, [](float count) { return count == 0.0F; })) warnings_->nothing(rank());
}

// Waits for all of a step and puts the results into .grad. Returns the first failure, in words that name the
// parameter.
Status GradientSync::finish(GradientFlight& flight) {
  at::NoGradGuard no_grad;
  std::vector<float> holders;
  Status status = flight.holders(holders);
  if (status.ok()) submit_held(flight, holders);
  const Status reduced = flight.wait();
  if (status.ok()) status = reduced;
  for (std::size_t i = 0; status.ok() && i < parameters_.size(); ++i) {
    if (holders[i] == 0.0F) continue;
    Parameter& parameter = parameters_[i];
    const at::Tensor result =
        in_shards() ? flight.memory(i).to(parameter.tensor.scalar_type()) : flight.memory(i);
    if (!parameter.tensor.grad().is_same(result)) parameter.tensor.mutable_grad() = result;
  }
  ++steps_;
  // By all, also where it has failed: the others wait for it.
  if (shared_norm_)
    norm_ = shared_norm_->of(status.ok() ? flight.share_of_square_sum()
                                         : std::numeric_limits<double>::quiet_NaN());
  return status;
}

// The step's gradients go on by themselves: .grad is free for those of the step before.
void GradientSync::take_off() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (flight().has(i) && !flight().stands_in(i)) parameters_[i].tensor.mutable_grad().reset();
  }
  claimed_.release();
  flying_ = 1 - flying_;
}

// `submit`, then the results of flight() if has_result_. Whatever comes of it, nothing of that step is left.
void GradientSync::complete(const std::function<void()>& submit) {
  const auto begin = std::chrono::steady_clock::now();
  Status failure;
  try {
    submit();
    if (has_result_) failure = finish(flight());
  } catch (...) {
    reset();
    window_->abandon_blocks();
    throw;
  }
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  reset();
  failure.ok() ? window_->end_step(runtime()) : window_->abandon_blocks();
  reduced_ = failure.ok();
  throw_if_error(failure);
}

bool GradientSync::synchronize(bool whole) {
  std::lock_guard lock(mutex_);
  throw_if_error(std::exchange(failed_in_backward_, {}));
  return reduce_step(whole);
}

bool GradientSync::reduce_step(bool whole) {
  if (reduced_) return has_result_;
  complete([&] {
    hooks_lost_ |= hooks_->refresh() > 0;
    if (whole) warn_if_early();
    submit_rest();
    flight().submit_presence();
    if (one_step_late()) take_off();
    has_result_ = flight().presence_submitted();
  });
  return has_result_;
}

bool GradientSync::on_its_way() const {
  std::lock_guard lock(mutex_);
  return one_step_late() && flights_[1 - flying_].presence_submitted();
}

bool GradientSync::land() {
  if (!on_its_way()) return false;
  std::lock_guard lock(mutex_);
  if (passes_ > 0 || flight().first()) {
    refuse(
        fmt::format("rank {}: flush() after a backward pass that no step() has followed; call step() first, "
                    "or zero_grad() to leave it out",
                    rank()));
  }
  complete([&] {
    reset();
    flying_ = 1 - flying_;
    has_result_ = true;
  });
  return true;
}

void GradientSync::average_passes() {
  std::lock_guard lock(mutex_);
  if (reduced_) return;
  const at::NoGradGuard no_grad;
  hooks_lost_ |= hooks_->refresh() > 0;
  warn_if_early();
  const double factor = sum_passes_ ? 1.0 : correction() / passes_per_step_;
  for (const Parameter& parameter : parameters_) {
    const at::Tensor& grad = parameter.tensor.grad();
    if (factor != 1.0 && grad.defined() && parameter.tensor.requires_grad()) grad.mul_(factor);
  }
  reset();
  reduced_ = true;
  ++steps_;
}

void GradientSync::begin_step() {
  std::lock_guard lock(mutex_);
  if (const Status failure = std::exchange(failed_in_backward_, {}); !failure.ok())
    log(LogLevel::warning, "rank {}: a step whose reduction has failed is left out: {}", rank(),
        failure.message);
  reset();
  hooks_->refresh();
}

void GradientSync::throw_failure() {
  std::lock_guard lock(mutex_);
  throw_if_error(std::exchange(failed_in_backward_, {}));
}

void GradientSync::check_not_reducing(const char* action) const {
  std::lock_guard lock(mutex_);
  const std::optional<std::size_t> busy = flight().first();
  if (!busy) return;
  refuse(
      fmt::format("rank {}: {} while gradients are being reduced (parameter '{}' is the first). Call step() "
                  "or synchronize() before; for a backward pass whose gradients this optimizer shall not "
                  "see, switch off requires_grad of its parameters during that pass.",
                  rank(), action, parameters_[*busy].name));
}

void GradientSync::reset() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    // It is written until it is done, whoever holds it.
    if (flight().submitted(i) && flight().in_flight(i) && parameter.tensor.grad().is_same(flight().memory(i)))
      parameter.tensor.mutable_grad().reset();
    parameter.complete = false;
    parameter.sum.reset();
  }
  flight().clear();
  claimed_.release();
  reduced_ = false;
  passes_ = 0;
  running_.clear();
  hooks_lost_ = false;
}

// A mean over passes is over passes_per_step_ on every rank; what makes that the number of passes that this
// rank has done. Without a counted pass the gradients come from elsewhere: set by hand, or by passes whose
// hooks were lost.
double GradientSync::correction() const {
  if (sum_passes_) return 1.0;
  const int passes = passes_ > 0 ? passes_ : (hooks_lost_ ? passes_per_step_ : 1);
  return passes < passes_per_step_ ? static_cast<double>(passes_per_step_) / passes : 1.0;
}

void GradientSync::warn_if_early() {
  if (hooks_lost_ && passes_per_step_ > 1) return GradientWarnings::lost_hooks(rank(), passes_per_step_);
  if (passes_ > 0 && passes_ < passes_per_step_) warnings_->early(rank(), passes_, passes_per_step_);
}

}  // namespace rueda
