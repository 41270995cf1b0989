// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/root_finder.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rueda {
namespace {

// A quarter of the time since the first look: ranks of one host are there within milliseconds, and a thousand
// ranks must not keep a server busy.
constexpr Duration kShortestPause = std::chrono::microseconds(500);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);

Duration pause_after(Time first, Time now) {
  return std::clamp((now - first) / 4, kShortestPause, kLongestPause);
}

}  // namespace

RootFinder::RootFinder(std::unique_ptr<RootAddress> address) : state_(std::make_shared<State>()) {
  where_ = address->in_words();
  state_->address = std::move(address);
  if (state_->address->may_block()) thread_ = std::thread([state = state_] { look_again_and_again(state); });
}

RootFinder::~RootFinder() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(state_->mutex);
    state_->unwanted = true;
  }
  state_->over.notify_all();
  thread_.detach();
}

std::optional<TcpEndpoint> RootFinder::found() {
  if (const Time now = clock_now(); !thread_.joinable() && now >= again_) {
    look(*state_);
    again_ = now + pause_after(begun_, now);
  }
  std::lock_guard lock(state_->mutex);
  if (state_->error) std::rethrow_exception(state_->error);
  return state_->endpoint;
}

void RootFinder::wait(Duration longest) {
  if (!thread_.joinable()) return std::this_thread::sleep_until(std::min(clock_now() + longest, again_));
  std::unique_lock lock(state_->mutex);
  state_->news.wait_for(lock, longest, [&] {
    return state_->error || (state_->endpoint && !state_->endpoint->addresses.empty());
  });
}

void RootFinder::look(State& state) {
  std::optional<TcpEndpoint> endpoint;
  std::exception_ptr error;
  try {
    endpoint = state.address->look();
  } catch (...) {
    error = std::current_exception();
  }
  std::lock_guard lock(state.mutex);
  if (endpoint) state.endpoint = std::move(endpoint);
  state.error = error;
  state.news.notify_all();
}

void RootFinder::look_again_and_again(const std::shared_ptr<State>& state) {
  for (const Time begun = clock_now();;) {
    look(*state);
    std::unique_lock lock(state->mutex);
    const Duration pause = pause_after(begun, clock_now());
    if (state->error || state->over.wait_for(lock, pause, [&] { return state->unwanted; })) return;
  }
}

}  // namespace rueda
