// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/root_finder.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rueda {
namespace {

// Ranks of one host are there within a millisecond; a thousand ranks must not keep a server busy.
constexpr auto kFirstPause = std::chrono::milliseconds(1);
constexpr auto kLongestPause = std::chrono::milliseconds(250);

}  // namespace

RootFinder::RootFinder(std::unique_ptr<RootAddress> address) : state_(std::make_shared<State>()) {
  where_ = address->in_words();
  state_->address = std::move(address);
  thread_ = std::thread([state = state_] { look(state); });
}

RootFinder::~RootFinder() {
  {
    std::lock_guard lock(state_->mutex);
    state_->unwanted = true;
  }
  state_->over.notify_all();
  if (state_->address->may_block()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

std::optional<TcpEndpoint> RootFinder::found() {
  std::lock_guard lock(state_->mutex);
  if (state_->error) std::rethrow_exception(state_->error);
  return state_->endpoint;
}

void RootFinder::look(const std::shared_ptr<State>& state) {
  auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(kFirstPause);
  for (bool wanted = true; wanted; pause = std::min<std::chrono::milliseconds>(2 * pause, kLongestPause)) {
    std::optional<TcpEndpoint> endpoint;
    std::exception_ptr error;
    try {
      endpoint = state->address->look();
    } catch (...) {
      error = std::current_exception();
    }
    std::unique_lock lock(state->mutex);
    if (endpoint) state->endpoint = std::move(endpoint);
    state->error = error;
    wanted = !error && !state->over.wait_for(lock, pause, [&] { return state->unwanted; });
  }
}

}  // namespace rueda
