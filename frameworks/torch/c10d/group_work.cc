// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/group_work.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/observe/training/training_record.h"
#include "core/observe/training/training_wait.h"
#include "frameworks/torch/c10d/future_completer.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/reducer/gradient_hooks.h"

namespace rueda {
namespace {

using c10::ivalue::Future;

// "all_reduce" of "rueda:all_reduce".
std::string_view operation_in(std::string_view title) { return title.substr(title.find(':') + 1); }

// The sentence is for operations of all ranks that no Missing has told of. Rank 0 asks all ranks after the
// time of the stall check, and waits for answers.
std::string how_ranks_are_named(const GroupInMessages& group, Duration limit) {
  constexpr Duration kForAnswers = std::chrono::milliseconds(1500);
  if (group.stall_check_disable)
    return "Some rank has not called it; unset RUEDA_STALL_CHECK_DISABLE, and this error names the ranks.";
  const Duration told = from_seconds(group.stall_check_time) + kForAnswers;
  if (limit >= told) return "Some rank has not called it, or has stopped in it; rank 0 has named none.";
  return fmt::format(
      "Some rank has not called it; this error names the ranks where the timeout is {:g} s or more "
      "(RUEDA_STALL_CHECK_TIME is {:g}).",
      std::chrono::duration<double>(told).count(), group.stall_check_time);
}

}  // namespace

void GroupCall::then(std::function<void()> next, const std::vector<at::Tensor>& uses) {
  scratch.insert(scratch.end(), uses.begin(), uses.end());
  if (!finish) {
    finish = std::move(next);
    return;
  }
  finish = [first = std::move(finish), next = std::move(next)] {
    first();
    next();
  };
}

GroupWork::GroupWork(int rank, GroupCall&& call, std::shared_ptr<const GroupInMessages> group,
                     const std::shared_ptr<FutureCompleter>& completer)
    : Work(rank, call.type, at::hasCallbacks() ? call.title : nullptr,
           at::hasCallbacks() ? call.shown : std::nullopt),
      call_(std::move(call)),
      group_(std::move(group)),
      completer_(completer),
      source_(call_.source) {
  if (call_.device) on_device_.emplace(*call_.device, call_.failure);
}

void GroupWork::begin(std::uint64_t number, PendingOperations operations) {
  number_ = number;
  operations_ = std::move(operations);
}

RecordedCall GroupWork::recorded_call() const {
  return {.type = call_.type,
          .number = number_,
          .inputs = call_.shown.value_or(std::vector<at::Tensor>()),
          .outputs = call_.outputs,
          .timeout = call_.timeout};
}

std::string GroupWork::words(const std::string& what) const {
  return fmt::format("rueda: {} number {} of {}: {}", operation_in(call_.title), number_, group_->name, what);
}

bool GroupWork::isCompleted() {
  if (!ends_by(Time::min())) return false;
  return failure_ || !on_device_ || on_device_->is_there_by(Time::min());
}

bool GroupWork::isSuccess() const { return settled_.load(std::memory_order_acquire) && !failure(); }

std::exception_ptr GroupWork::exception() const {
  return settled_.load(std::memory_order_acquire) ? failure() : nullptr;
}

std::exception_ptr GroupWork::failure() const {
  if (failure_ || !on_device_) return failure_;
  const Status lost = on_device_->failure();
  if (lost.ok()) return nullptr;
  try {
    C10_THROW_ERROR(DistBackendError, words(lost.message));
  } catch (...) {
    return std::current_exception();
  }
}

bool GroupWork::wait(std::chrono::milliseconds timeout) {
  const std::chrono::milliseconds limit = timeout == kNoTimeout ? call_.timeout : timeout;
  std::optional<TrainingWait> mark;
  if (!settled_.load(std::memory_order_acquire) || on_device_) {
    mark.emplace(current_backward_pass() >= 0);
    const Time deadline = clock_now() + limit;
    if (!ends_by(deadline)) throw_timed_out(limit);
  }
  if (failure_) std::rethrow_exception(failure_);
  if (on_device_) wait_on_device(limit);
  return true;
}

void GroupWork::wait_on_device(std::chrono::milliseconds limit) {
  on_device_->hold_back_current_stream();
  for (const at::Tensor& each : call_.outputs) {  // whose new memory is of a stream of torch's
    if (!each.is_sparse()) continue;
    keep_for_current_stream(each._indices().storage());
    keep_for_current_stream(each._values().storage());
  }
  if (call_.type == c10d::OpType::BARRIER && !on_device_->is_there_by(clock_now() + limit))
    throw_timed_out(limit);
  if (const std::exception_ptr lost = failure()) std::rethrow_exception(lost);
}

bool GroupWork::ends_by(Time deadline) {
  if (settled_.load(std::memory_order_acquire)) return true;
  const bool ended = std::ranges::all_of(operations_, [&](const PendingOperation& each) {
    return deadline == Time::min() ? each.done() : each.ends_by(deadline);
  });
  if (ended) settle();
  return ended;
}

// Callbacks of the parts' Futures run before the lock is taken.
void GroupWork::settle() {
  if (call_.end_parts) call_.end_parts();
  settle_with([this] { take_outcome(); });
}

void GroupWork::give_up() {
  settle_with(
      [this] { C10_THROW_ERROR(DistBackendError, words("not complete: its group was shut down before")); });
}

void GroupWork::take_outcome() {
  try {
    for (const PendingOperation& each : operations_) {
      throw_if_error(each.status());
      if (each.source() >= 0) source_.store(each.source());
    }
  } catch (const Error& error) {
    C10_THROW_ERROR(DistBackendError, words(error.what() + remedy_for(error)));
  }
  if (!on_device_) {
    // The outputs may be parameters, or tensors of another thread's inference mode.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (call_.finish) call_.finish();
    return;
  }
  std::vector<at::Tensor> used = std::move(call_.scratch);
  used.insert(used.end(), call_.outputs.begin(), call_.outputs.end());
  on_device_->take(operations_, call_.finish, used);
}

void GroupWork::settle_with(const std::function<void()>& outcome) {
  {
    const std::lock_guard lock(settling_);
    if (settled_.load()) return;
    try {
      outcome();
    } catch (...) {
      failure_ = std::current_exception();
    }
    call_.finish = nullptr;
    call_.scratch.clear();
    if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
    settled_.store(true, std::memory_order_release);
  }
  if (recorded_) FlightRecorder::of_process().note_end(*recorded_, !failure_);
  if (failure_) FlightRecorder::of_process().note_failure();
  complete_future();
}

std::string GroupWork::who_is_missing(Duration limit) const {
  if (call_.type == c10d::OpType::SEND)
    return fmt::format("Rank {} has not called recv with that tag.", call_.destination);
  if (call_.type == c10d::OpType::RECV)
    return fmt::format("Rank {} has not called send with that tag.", call_.source);
  if (call_.type == c10d::OpType::RECVANYSOURCE) return "No rank has called send with that tag.";
  for (const PendingOperation& each : operations_)
    if (const std::string ranks = each.missing_ranks(); !ranks.empty())
      return fmt::format("It waits for other ranks:{}\n", ranks);
  return how_ranks_are_named(*group_, limit);
}

void GroupWork::throw_timed_out(std::chrono::milliseconds limit) const {
  const std::string why =
      words(fmt::format("Timed out after {} ms. {} If ranks are slow, give init_process_group() or "
                        "new_group() a longer timeout.",
                        limit.count(), who_is_missing(limit)));
  FlightRecorder::of_process().note_failure();
  TrainingRecord::of_process().note_failure(why);
  C10_THROW_ERROR(DistBackendError, why);
}

std::string GroupWork::remedy_for(const Error& error) const {
  if (!call_.in_callback || error.code() != StatusCode::mismatch) return {};
  return " A callback of a Future has called it. Callbacks run at different times on different ranks: wrap "
         "the "
         "hook by rueda.torch.distributed.in_order().";
}

// --- Futures.

c10::intrusive_ptr<Future> GroupWork::getFuture() {
  const std::shared_ptr<FutureCompleter> completer = completer_.lock();
  if (completer && completer->leaves_it_to_the_caller() && !settled_.load()) {
    bool ended = false;
    run_wait_of_call()([&] { ended = ends_by(clock_now() + call_.timeout); });
    if (!ended) throw_timed_out(call_.timeout);
  }
  std::unique_lock lock(settling_);
  if (future_) return future_;
  std::vector<c10::Device> devices;
  if (call_.device) devices.push_back(*call_.device);
  future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
  const c10::intrusive_ptr<Future> future = future_;
  const bool settled = settled_.load();
  future_until_ = clock_now() + call_.timeout;
  lock.unlock();
  if (settled) {
    complete_future();
  } else if (!completer || !completer->add(c10::intrusive_ptr<GroupWork>::reclaim_copy(this))) {
    if (!ends_by(Time::min())) give_up();
  }
  return future;
}

bool GroupWork::times_out() {
  if (clock_now() < future_until_) return false;
  std::exception_ptr late;
  try {
    throw_timed_out(call_.timeout);
  } catch (...) {
    late = std::current_exception();
  }
  if (const auto future = take_future()) future->setErrorIfNeeded(late);
  return true;
}

c10::intrusive_ptr<Future> GroupWork::getFutureResult() {
  auto result = c10::make_intrusive<Future>(c10::IntType::get());
  getFuture()->addCallback([result](Future& ended) {
    const auto outcome = ended.hasError() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
    result->markCompleted(c10::IValue(static_cast<std::int64_t>(outcome)));
  });
  return result;
}

// A Future's result is behind the streams that are current here.
void GroupWork::complete(Future& future) {
  const auto mark = [&] { future.markCompleted(c10::IValue(call_.outputs)); };
  if (!on_device_) return mark();
  try {
    on_device_->behind_it(mark);
  } catch (...) {
    future.setErrorIfNeeded(std::current_exception());
  }
}

c10::intrusive_ptr<Future> GroupWork::take_future() {
  const std::lock_guard lock(settling_);
  return future_ && !future_complete_.exchange(true) ? future_ : nullptr;
}

// Callbacks run here: without the lock.
void GroupWork::complete_future() {
  const c10::intrusive_ptr<Future> future = take_future();
  if (!future) return;
  if (failure_) {
    future->setErrorIfNeeded(failure_);
  } else {
    complete(*future);
  }
}

}  // namespace rueda
