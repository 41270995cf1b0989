// SPDX-License-Identifier: Apache-2.0
// The end of a step: what has not been submitted yet, waiting, and what is then in .grad.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "core/base/log.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/reducer/gradient_sync.h"
#include "frameworks/torch/reducer/out_of_turn.h"

namespace rueda {

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
    if (!flight().submitted(index) && flight().group_begun(index)) submit_stand_in(index);
  }
}

void GradientSync::submit_stand_in(std::size_t index) {
  const at::NoGradGuard no_grad;
  claim(parameters_[index]);
  at::Tensor zeros = window_->zeros(flying_, index);
  const GradientPlacement placement = window_->placement(flying_, index, zeros);
  flight().submit_stand_in(index, std::move(zeros), placement);
}

// What had to wait for what all ranks have: sparse gradients, and zeros where another rank has a gradient and
// this one has none.
void GradientSync::submit_held(const std::vector<float>& holders) {
  const at::NoGradGuard no_grad;
  ReductionRound& flight = this->flight();
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool here = flight.has(i) && !flight.stands_in(i);
    if (!here && holders[i] > 0.0F && parameters_[i].tensor.requires_grad()) missing.push_back(i);
    if (is_gathered(i, holders)) {
      flight.gather(i, parameters_[i].tensor);
    } else if (flight.held(i).defined()) {
      submit(i, window_->place(flying_, i, reducible(flight.held(i)), 1.0, 1));
    } else if (!flight.submitted(i) && flight.due(i, holders)) {
      submit_stand_in(i);
    }
  }
  warnings_->missing(rank(), missing);
  if (std::ranges::all_of(holders, [](float count) { return count == 0.0F; })) warnings_->nothing(rank());
}

// Whether the elements that the ranks have of a sparse gradient are gathered, and nothing is reduced.
bool GradientSync::is_gathered(std::size_t index, const std::vector<float>& holders) const {
  constexpr float kFew = 0.25F;
  return holders[index] > 0.0F &&
         flight().is_sparse(index, sparse_ == SparseGradients::as_sparse ? ReductionRound::kDense : kFew);
}

// What .grad becomes.
at::Tensor GradientSync::result_of(std::size_t index) const {
  const Parameter& parameter = parameters_[index];
  const at::Tensor& reduced = flight().memory(index);
  const bool sparse_again =
      sparse_ == SparseGradients::as_sparse || sparse_ == SparseGradients::travels_dense;
  if (sparse_again && parameter.sparse_dimensions > 0 && !reduced.is_sparse())
    return reduced.to_sparse(parameter.sparse_dimensions);
  return in_shards() ? reduced.to(parameter.tensor.scalar_type()) : reduced;
}

// Waits for all of a step and puts the results into .grad. Returns the first failure, in words that name the
// parameter.
Status GradientSync::finish() {
  at::NoGradGuard no_grad;
  ReductionRound& flight = this->flight();
  std::vector<float> holders;
  Status status = flight.holders(holders);
  if (status.ok()) submit_held(holders);
  const Status reduced = flight.wait();
  if (status.ok()) status = reduced;
  if (status.ok()) {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      window_->note_result(flying_, i, flight.memory(i), flight.takes_window(i));
    window_->note_results();
  }
  for (std::size_t i = 0; status.ok() && i < parameters_.size(); ++i) {
    if (holders[i] == 0.0F) continue;
    Parameter& parameter = parameters_[i];
    const at::Tensor result = result_of(i);
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

// The results of flight() if has_result_. Whatever comes of it, nothing of that step is left.
void GradientSync::complete() {
  const auto begin = std::chrono::steady_clock::now();
  Status failure;
  try {
    if (has_result_) failure = finish();
  } catch (...) {
    abandon();
    throw;
  }
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  reset();
  failure.ok() ? window_->end_step() : window_->abandon_blocks();
  reduced_ = failure.ok();
  throw_if_error(failure);
}

bool GradientSync::synchronize(bool whole) {
  std::lock_guard lock(mutex_);
  clear_up();
  throw_if_error(std::exchange(failed_in_backward_, {}));
  return reduce_step(whole);
}

bool GradientSync::reduce_step(bool whole) {
  if (reduced_) return has_result_;
  submit_step(whole);
  if (one_step_late()) take_off();
  has_result_ = flight().presence_submitted();
  complete();
  return has_result_;
}

// What has not been submitted of a step yet, and which gradients there are.
void GradientSync::submit_step(bool whole) {
  if (flight().presence_submitted()) return;
  try {
    hooks_lost_ |= hooks_->refresh() > 0;
    if (whole) warn_if_early();
    submit_rest();
    flight().submit_presence();
  } catch (...) {
    abandon();
    throw;
  }
}

bool GradientSync::on_its_way() const {
  if (!one_step_late()) return false;  // a reduction that is waited for has the mutex
  std::lock_guard lock(mutex_);
  return flights_[1 - flying_].presence_submitted();
}

bool GradientSync::land() {
  if (!on_its_way()) return false;
  std::lock_guard lock(mutex_);
  if (passes_.ended() > 0 || flight().first()) {
    refuse(
        fmt::format("rank {}: flush() after a backward pass that no step() has followed; call step() first, "
                    "or zero_grad() to leave it out",
                    rank()));
  }
  reset();
  flying_ = 1 - flying_;
  has_result_ = true;
  complete();
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

void GradientSync::share_places() {
  std::lock_guard lock(mutex_);
  window_->share_places();
}

void GradientSync::begin_step() {
  std::lock_guard lock(mutex_);
  if (const Status failure = std::exchange(failed_in_backward_, {}); !failure.ok())
    log(LogLevel::warning, "rank {}: a step whose reduction has failed is left out: {}", rank(),
        failure.message);
  reset();
  window_->note_reader();
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
  if (passes_.failed()) {
    throw OutOfTurn(fmt::format(
        "rank {}: {} after a backward pass that failed, of which gradients are being reduced (parameter '{}' "
        "is the first). Call synchronize() before, with which the step ends on all ranks.",
        rank(), action, parameters_[*busy].name));
  }
  throw OutOfTurn(
      fmt::format("rank {}: {} while gradients are being reduced (parameter '{}' is the first). Call step() "
                  "or synchronize() before; for a backward pass whose gradients this optimizer shall not "
                  "see, switch off requires_grad of its parameters during that pass.",
                  rank(), action, parameters_[*busy].name));
}

void GradientSync::abandon() {
  reset();
  window_->abandon_blocks();
}

void GradientSync::reset() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    // It is written until it is done, whoever holds it.
    if (flight().submitted(i) && flight().in_flight(i) && parameter.tensor.grad().is_same(flight().memory(i)))
      parameter.tensor.mutable_grad().reset();
    parameter.complete = false;
    parameter.found.reset();
    parameter.sum.reset();
  }
  flight().clear();
  claimed_.release();
  reduced_ = false;
  passes_.reset();
  hooks_lost_ = false;
}

// A mean over passes is over passes_per_step_ on every rank; what makes that the number of passes that this
// rank has done. Without a counted pass the gradients come from elsewhere: set by hand, or by passes whose
// hooks were lost.
double GradientSync::correction() const {
  if (sum_passes_) return 1.0;
  const bool unheard = hooks_lost_ || passes_.unheard();
  const int passes = passes_.ended() > 0 ? passes_.ended() : (unheard ? passes_per_step_ : 1);
  return passes < passes_per_step_ ? static_cast<double>(passes_per_step_) / passes : 1.0;
}

void GradientSync::warn_if_early() {
  if (in_backward_ && passes_.unheard()) warnings_->late_reduction(rank());
  if (hooks_lost_ && (passes_per_step_ > 1 || in_backward_))
    return StepWarnings::lost_hooks(rank(), passes_per_step_);
  const int passes = passes_.ended();
  if (passes > 0 && passes < passes_per_step_) warnings_->early(rank(), passes, passes_per_step_);
}

}  // namespace rueda
