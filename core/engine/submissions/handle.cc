// SPDX-License-Identifier: Apache-2.0
#include "rueda/handle.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/host_buffer.h"
#include "core/base/system/fork_guard.h"
#include "core/base/wait_check.h"
#include "core/engine/submissions/handle_state.h"
#include "core/engine/wait/adaptive_spin.h"

namespace rueda {

void HandleState::complete(Status status, std::shared_ptr<void> owner) {
  std::uint32_t open = kOpen;
  if (!state_.compare_exchange_strong(open, kClosing)) {
    owner_.keep_late(std::move(owner));
    return;
  }
  status_ = std::move(status);
  owner_.keep(std::move(owner));
  state_.store(kDone);
  if (slept_on_.load()) wake_all_on(state_);
}

// Most operations on one host end within microseconds.
void HandleState::wait_awake() {
  thread_local AdaptiveSpin spin(std::chrono::microseconds(50));
  const AdaptiveSpin::Duration longest = spin.next();
  bool turned = false;
  if (longest > AdaptiveSpin::Duration::zero()) {
    turned = waiters_->turns().take_until_done(*this, longest);
    spin.ended(done());
  }
  if (!turned && submission.awaited) waiters_->turns().ring();
}

const Status& HandleState::wait() {
  if (waiters_ && !done()) wait_awake();
  if (!done()) wait_asleep();
  end_wait();
  return status_;
}

bool HandleState::wait_until(Time deadline) {
  if (waiters_ && !done()) wait_awake();
  if (!done()) wait_asleep(deadline);
  if (!done()) return false;
  end_wait();
  return true;
}

void HandleState::end_wait() {
  if (captured()) joined_.store(true);
  let_go();
}

namespace {

// Purpose: while it lives, the watchdog of a stuck background thread ends the wait. On the stack of who
// waits.
class KnownToWait {
 public:
  KnownToWait(Waiters* waiters, HandleState* state) : waiters_(waiters), state_(state) {
    if (waiters_ != nullptr) waiters_->add(state_);
  }
  ~KnownToWait() {
    if (waiters_ != nullptr) waiters_->remove(state_);
  }
  KnownToWait(const KnownToWait&) = delete;
  KnownToWait& operator=(const KnownToWait&) = delete;

 private:
  Waiters* waiters_;
  HandleState* state_;
};

}  // namespace

void HandleState::wait_asleep(std::optional<Time> deadline) {
  const KnownToWait known(waiters_.get(), this);
  slept_on_.store(true);
  constexpr int kYields = 4;  // on busy cores the operation often ends while others run
  for (int i = 0; i < kYields && !done(); ++i) sched_yield();
  const WaitCheck* check = wait_check_here();
  std::exception_ptr thrown;
  for (std::uint32_t state = state_.load(); state != kDone; state = state_.load()) {
    std::chrono::nanoseconds longest = std::chrono::nanoseconds::max();
    if (check != nullptr) longest = kCheckEvery;
    if (deadline && !thrown) {
      const Time now = clock_now();
      if (now >= *deadline) return;
      longest = std::min<std::chrono::nanoseconds>(longest, *deadline - now);
    }
    sleep_on(state_, state, longest);
    if (check == nullptr || done()) continue;
    try {
      check->look();
    } catch (...) {
      if (withdraw()) throw;
      thrown = std::current_exception();
      check = nullptr;
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

// Returns true if the operation goes on without the caller's memory. A Work may be at its memory already:
// that ends soon, since all ranks have called it.
bool HandleState::withdraw() {
  if (!waiters_) return false;
  bool free_of_caller = false;
  waiters_->turns().do_with_turn(*this, [&] { free_of_caller = give_own_memory(); });
  return free_of_caller || done();
}

// With the turn. Whoever has submitted without an owner keeps the memory alive until this wait is over.
bool HandleState::give_own_memory() {
  if (submission.owner) return true;
  ConstTensorView& input = submission.input;
  TensorView& output = submission.output;
  if (!submission.allocate && input.data == nullptr && output.data == nullptr) return true;
  if (begun || submission.allocate || submission.request.device != DeviceKind::host || !input.contiguous() ||
      !output.contiguous())
    return false;
  try {
    std::vector<HostBuffer> memory;
    const auto copy_of = [&memory](const void* data, std::size_t bytes) -> std::byte* {
      if (data == nullptr) return nullptr;
      std::memcpy(memory.emplace_back(bytes).data(), data, bytes);
      return memory.back().data();
    };
    std::byte* const read = copy_of(input.data, input.bytes());
    std::byte* const written = input.data == output.data ? read : copy_of(output.data, output.bytes());
    submission.owner = std::make_shared<std::vector<HostBuffer>>(std::move(memory));
    input.data = read;
    output.data = written;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool HandleState::let_go() {
  if (captured() && !joined_.load()) return false;  // what is freed may be taken before the graph is through
  if (fence && !fence->passed()) return false;
  owner_.let_go();
  return true;
}

void ReleaseList::add(std::vector<std::shared_ptr<HandleState>>& states) {
  if (states.empty()) return;
  std::lock_guard lock(mutex_);
  if (states_.empty()) {
    states_.swap(states);
  } else {
    states_.insert(states_.end(), std::move_iterator(states.begin()), std::move_iterator(states.end()));
    states.clear();
  }
  any_.store(true, std::memory_order_relaxed);
}

void ReleaseList::clear() {
  if (!any_.load(std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<HandleState>> released;
  {
    std::lock_guard lock(mutex_);
    released.swap(states_);
    any_.store(false, std::memory_order_relaxed);
  }
  // Something else may know the operation's request, and with it the state, a little longer.
  std::erase_if(released, [](const std::shared_ptr<HandleState>& state) {
    return !state->done() || state->let_go();  // what is not done the watchdog is about to complete
  });
  add(released);  // which devices still have to do with
}

bool Handle::done() const { return !state_ || state_->done(); }

void Handle::wait() const { throw_if_error(wait_status()); }

Status Handle::wait_status() const {
  if (!state_) return {};
  if (!state_->done() && is_forked_child()) return status_in_forked_child();  // nobody would complete it
  return state_->wait();
}

bool Handle::wait_until(std::chrono::steady_clock::time_point deadline) const {
  if (!state_) return true;
  if (!state_->done() && is_forked_child()) throw_if_error(status_in_forked_child());
  return state_->wait_until(deadline);
}

std::string Handle::missing_ranks() const { return state_ ? state_->missing.in_words() : std::string(); }

const TensorView& Handle::output() const {
  RUEDA_ASSERT(state_ && state_->done());
  return state_->output;
}

std::int64_t Handle::result() const {
  RUEDA_ASSERT(state_ && state_->done());
  return state_->numbers.result;
}

std::shared_ptr<const Fence> Handle::fence() const {
  RUEDA_ASSERT(!state_ || state_->done());
  return state_ ? state_->fence : nullptr;
}

bool Handle::takes_window() const {
  RUEDA_ASSERT(!state_ || state_->done());
  return state_ && state_->numbers.takes_window;
}

double Handle::share_of_square_sum() const {
  RUEDA_ASSERT(state_ && state_->done());
  return state_->numbers.square_sum;
}

const std::vector<std::int64_t>& Handle::received_splits() const {
  RUEDA_ASSERT(state_ && state_->done());
  return state_->received_splits;
}

}  // namespace rueda
