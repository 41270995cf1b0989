// SPDX-License-Identifier: Apache-2.0
#include "core/engine/handle.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "core/base/forked.h"
#include "core/engine/handle_state.h"
#include "core/engine/patience.h"

namespace rueda {

void HandleState::complete(Status status, std::shared_ptr<void> owner) {
  int open = kOpen;
  if (!state_.compare_exchange_strong(open, kClosing)) {
    if (owner) late_owner_ = std::move(owner);
    return;
  }
  status_ = std::move(status);
  owner_ = std::move(owner);
  state_.store(kDone);
  if (slept_on_.load()) state_.notify_all();
}

// Most operations on one host end within microseconds.
void HandleState::wait_awake() {
  thread_local Patience patience(std::chrono::microseconds(50));
  const Patience::Duration longest = patience.next();
  bool turned = false;
  if (longest > Patience::Duration::zero()) {
    turned = waiters_->turns().take_until_done(*this, longest);
    patience.ended(done());
  }
  if (!turned && submission.awaited) waiters_->turns().ring();
}

const Status& HandleState::wait() {
  if (waiters_ && !done()) wait_awake();
  if (!done()) {
    if (waiters_) waiters_->add(this);
    slept_on_.store(true);
    for (int state = state_.load(); state != kDone; state = state_.load()) state_.wait(state);
    if (waiters_) waiters_->remove(this);
  }
  if (captured()) joined_.store(true);
  let_go();
  return status_;
}

bool HandleState::let_go() {
  if (captured() && !joined_.load()) return false;  // what is freed may be taken before the graph is through
  if (fence && !fence->passed()) return false;
  if (!let_go_.exchange(true)) owner_.reset();  // several threads may wait
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

const TensorView& Handle::output() const {
  RUEDA_ASSERT(state_ && state_->done());
  return state_->output;
}

std::int64_t Handle::result() const {
  RUEDA_ASSERT(state_ && state_->done());
  return state_->result;
}

std::shared_ptr<const Fence> Handle::fence() const {
  RUEDA_ASSERT(!state_ || state_->done());
  return state_ ? state_->fence : nullptr;
}

bool Handle::takes_window() const {
  RUEDA_ASSERT(!state_ || state_->done());
  return state_ && state_->takes_window;
}

double Handle::share_of_square_sum() const {
  RUEDA_ASSERT(state_ && state_->done());
  return state_->square_sum;
}

const std::vector<std::int64_t>& Handle::received_splits() const {
  RUEDA_ASSERT(state_ && state_->done());
  return state_->received_splits;
}

}  // namespace rueda
