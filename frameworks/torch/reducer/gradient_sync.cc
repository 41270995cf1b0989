// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/gradient_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/default_runtime.h"
#include "core/observe/training/training_record.h"
#include "frameworks/torch/reducer/out_of_turn.h"
#include "rueda/rueda.h"

namespace rueda {
namespace {

// A sum over n ranks multiplies values alike on all by n; a mean over n passes divides single values by n.
double factor_to_reduce_again(const DistributedOptions& options, const Scope& scope) {
  const bool sums = options.op == ReduceOp::sum && !options.schedule.averages_parameters();
  return (options.sum_passes ? 1.0 : passes_of(options)) / (sums ? scope.size() : 1.0);
}

// Norms of gradients on a device are measured there, when somebody asks.
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
    : passes_(checked(options, scope)),
      again_(factor_to_reduce_again(options, scope)),
      begin_(begin_of_reductions(options, scope.runtime())),
      reduction_(parameters, options, reduction_for(parameters, options, scope.runtime()), scope) {
  hooks_.emplace(static_cast<GradientListener&>(*this), reduction_.tensors());
}

void GradientSync::prepare() {
  std::lock_guard lock(mutex_);
  reduction_.buffers().prepare();
}

void GradientSync::note_use() {
  std::lock_guard lock(mutex_);
  gradients_used_ = true;
}

void GradientSync::release_used_gradients() {
  std::lock_guard lock(mutex_);
  if (gradients_used_) reduction_.release_gradients();
}

void GradientSync::before_accumulation(std::size_t index) {
  std::lock_guard lock(mutex_);
  gradients_used_ = false;
  clear_up();
  if (state_ == StepState::reduced || state_ == StepState::empty) begin_further_pass();
  reduction_.before_accumulation(index);
  if (reduction_.is_sequential() && !passes_.paused()) {
    check_alone(index);
    note_pass();
  }
  if (!reduction_.complete(index) && state_ != StepState::announced) return;
  if (passes_.counter().failed()) {
    refuse(fmt::format(
        "rank {}: parameter '{}' receives a gradient after a backward pass of this step that failed. Call "
        "synchronize() first, with which the step ends on all ranks, and zero_grad().",
        rank(), reduction_.name(index)));
  }
  throw OutOfTurn(fmt::format(
      "rank {}: parameter '{}' receives a gradient in a backward pass after the last of its step "
      "(backward_passes_per_step is {}). Call step() first, or raise backward_passes_per_step to the number "
      "of backward passes per step; with checkpointing, use the non-reentrant kind, which runs one pass.",
      rank(), reduction_.name(index), passes_.per_step()));
}

void GradientSync::after_accumulation(std::size_t index) {
  std::lock_guard lock(mutex_);
  if (passes_.paused()) return;
  note_pass();
  const bool last = passes_.in_last();
  if (reduction_.add(index, passes_.number(), last) && last && begin_ == Begin::as_they_come)
    reduction_.submit(index, 1.0, kHoldersInAHook);
}

// In a hook of a running pass.
void GradientSync::note_pass() {
  const int pass = current_backward_pass();
  auto running = passes_.counter().note(pass);
  if (!running) return;
  TrainingRecord::of_process().begin_phase(Phase::backward);
  reduction_.buffers().begin_pass();
  at_end_of_backward_pass([this, pass, running = std::move(running)] { end_pass(pass); });
}

// In a hook: gradients of two passes at a time have no order.
void GradientSync::check_alone(std::size_t index) const {
  if (!passes_.counter().running_beside(current_backward_pass())) return;
  refuse(
      fmt::format("rank {}: parameter '{}' receives a gradient while another backward pass runs, or after "
                  "one that failed. With reduction_order fixed the passes of a step follow one another; "
                  "after a failed one call zero_grad().",
                  rank(), reduction_.name(index)));
}

// Clears the state of an earlier job or of a failed pass, if no reduction of it is on its way.
void GradientSync::clear_up() {
  const bool new_job = std::exchange(job_, jobs_begun()) != jobs_begun();
  if (new_job) {
    failed_in_backward_ = {};
    reduction_.buffers().begin_job();
  }
  const PassCounter& passes = passes_.counter();
  if (new_job || (passes.failed() && !passes.running() && !reduction_.first())) reset();
}

// A pass after the reduction and before step(): its gradients add to the reduced ones, which all ranks have
// alike, and which shall still be the same when they are reduced with it.
void GradientSync::begin_further_pass() {
  reset();
  reduction_.scale_gradients(again_);
}

// When a backward pass ends, before backward() returns. All that reduce gradients of this pass submit before
// one of them waits, so that ranks may wait for them in different orders.
void GradientSync::end_pass(int pass) {
  std::lock_guard lock(mutex_);
  passes_.counter().end(pass, inside_another_backward_pass());
  if (passes_.counter().unheard() && !reduction_.is_sequential()) hear_pass_around();
  if (begin_ == Begin::after_the_pass) reduction_.submit_complete();
  if (passes_.goes_on()) TrainingRecord::of_process().leave_phase(Phase::backward, Phase::forward);
  if (!passes_.ends_step()) return;
  failed_in_backward_ = {};  // of a step before, which nobody has asked for
  keep_failure_of([this] { announce(true); });
  at_end_of_backward_pass([this] { wait_in_backward(); });
}

// Reentrant checkpoints, of which the last may be still to come: the pass around them ends the step.
void GradientSync::hear_pass_around() {
  in_backward_pass_around(alive_, [this] {
    std::lock_guard lock(mutex_);
    if (passes_.counter().unheard() && !passes_.paused()) note_pass();
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

bool GradientSync::synchronize(bool whole) {
  std::lock_guard lock(mutex_);
  clear_up();
  throw_if_error(std::exchange(failed_in_backward_, {}));
  return reduce_step(whole);
}

bool GradientSync::reduce_step(bool whole) {
  if (state_ == StepState::reduced || state_ == StepState::empty) return state_ == StepState::reduced;
  announce(whole);
  complete(reduction_.turn());
  return state_ == StepState::reduced;
}

// Submits the rest of a step, and tells the other ranks which gradients are there.
void GradientSync::announce(bool whole) {
  if (state_ == StepState::announced) return;
  try {
    if (hooks_->refresh() > 0) passes_.note_lost_hooks();
    if (whole) passes_.warn(reduction_.warnings(), rank());
    reduction_.announce(passes_.correction());
  } catch (...) {
    abandon();
    throw;
  }
  state_ = StepState::announced;
}

// Waits for the round whose results are due, if there is one. Leaves nothing of that round in any case.
void GradientSync::complete(bool has_result) {
  const auto begin = std::chrono::steady_clock::now();
  TrainingRecord& record = TrainingRecord::of_process();
  // A checkpoint may flush; the optimizer's step may come later.
  const Phase before = has_result ? record.begin_phase(Phase::wait) : Phase::other;
  const Phase next = is_pause(before) ? before : Phase::other;
  Status failure;
  try {
    if (has_result) {
      ++steps_;
      failure = reduction_.finish();
    }
  } catch (...) {
    record.leave_phase(Phase::wait, next);
    abandon();
    throw;
  }
  if (has_result) record.leave_phase(Phase::wait, next);
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  reset();
  if (!failure.ok()) {
    reduction_.buffers().abandon_step();
    throw_if_error(failure);
  }
  reduction_.buffers().end_step();
  state_ = has_result ? StepState::reduced : StepState::empty;
}

bool GradientSync::on_its_way() const {
  if (!reduction_.overlaps_steps()) return false;  // a reduction that is waited for has the mutex
  std::lock_guard lock(mutex_);
  return reduction_.on_its_way();
}

bool GradientSync::land() {
  if (!on_its_way()) return false;
  std::lock_guard lock(mutex_);
  if (passes_.counter().ended() > 0 || reduction_.first()) {
    refuse(
        fmt::format("rank {}: flush() after a backward pass that no step() has followed; call step() first, "
                    "or zero_grad() to leave it out",
                    rank()));
  }
  reset();
  complete(reduction_.turn());
  return true;
}

void GradientSync::average_passes() {
  std::lock_guard lock(mutex_);
  if (state_ == StepState::reduced) return;
  if (hooks_->refresh() > 0) passes_.note_lost_hooks();
  passes_.warn(reduction_.warnings(), rank());
  reduction_.scale_gradients(passes_.local_factor());
  reset();
  TrainingRecord::of_process().begin_phase(Phase::step);
  state_ = StepState::reduced;
  ++steps_;
}

std::optional<double> GradientSync::norm() const {
  std::lock_guard lock(mutex_);
  return reduction_.norm();
}

std::uint64_t GradientSync::steps() const {
  std::lock_guard lock(mutex_);
  return steps_;
}

double GradientSync::wait_seconds() const {
  std::lock_guard lock(mutex_);
  return wait_seconds_;
}

void GradientSync::show_local_gradients() {
  std::lock_guard lock(mutex_);
  reduction_.show_local_gradients();
}

void GradientSync::share_slots() {
  std::lock_guard lock(mutex_);
  reduction_.buffers().share_slots();
}

void GradientSync::begin_step() {
  std::lock_guard lock(mutex_);
  if (const Status failure = std::exchange(failed_in_backward_, {}); !failure.ok())
    log(LogLevel::warning, "rank {}: a step whose reduction has failed is left out: {}", rank(),
        failure.message);
  reset();
  reduction_.buffers().note_reader();
  hooks_->refresh();
}

void GradientSync::refresh_hooks() {
  std::lock_guard lock(mutex_);
  clear_up();
  const bool unheard = passes_.missed_end();
  if (!passes_.counter().running() && (unheard || passes_.counter().failed())) {
    reduce_step(false);  // other ranks may wait for it
    reset();
    for (const at::Tensor& parameter : reduction_.tensors()) parameter.mutable_grad().reset();
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
  const Scope scope = reduction_.scope();
  return scope.runtime().captures().capturing(scope.process_set());
}

void GradientSync::pause(int change) {
  std::lock_guard lock(mutex_);
  passes_.pause(change);
}

void GradientSync::throw_failure() {
  std::lock_guard lock(mutex_);
  throw_if_error(std::exchange(failed_in_backward_, {}));
}

void GradientSync::check_not_reducing(const char* action) const {
  std::lock_guard lock(mutex_);
  const std::optional<std::size_t> busy = reduction_.first();
  if (!busy) return;
  if (passes_.counter().failed()) {
    throw OutOfTurn(fmt::format(
        "rank {}: {} after a backward pass that failed, of which gradients are being reduced (parameter '{}' "
        "is the first). Call synchronize() before, with which the step ends on all ranks.",
        rank(), action, reduction_.name(*busy)));
  }
  throw OutOfTurn(fmt::format(
      "rank {}: {} while gradients are being reduced (parameter '{}' is the first; the state of "
      "the step is '{}'). Call step() or synchronize() before; for a backward pass whose gradients "
      "this optimizer shall not see, switch off requires_grad of its parameters during that pass.",
      rank(), action, reduction_.name(*busy), to_string(state_)));
}

void GradientSync::abandon() {
  reset();
  reduction_.buffers().abandon_step();
}

void GradientSync::reset() {
  reduction_.reset();
  passes_.reset();
  state_ = StepState::collecting;
}

std::string_view to_string(StepState state) {
  switch (state) {
    case StepState::collecting: return "collecting";
    case StepState::announced: return "announced";
    case StepState::reduced: return "reduced";
    case StepState::empty: return "empty";
  }
  return "";
}

}  // namespace rueda
