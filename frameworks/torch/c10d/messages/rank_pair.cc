// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/rank_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "frameworks/torch/c10d/operations/group_store.h"
#include "ops/setup/group_start.h"

namespace rueda {

RankPair::RankPair(c10::intrusive_ptr<c10d::Store> store, int rank, int peer, Duration start_timeout)
    : store_(std::move(store)), rank_(rank), peer_(peer), start_timeout_(start_timeout), thread_([this] {
        run();
      }) {}

RankPair::~RankPair() {
  end();
  thread_.join();
}

std::string RankPair::in_words() const {
  const auto [lower, higher] = std::minmax(rank_, peer_);
  return fmt::format(
      "messages between the ranks {} and {} of the group, which are the ranks 0 and 1 of a job", lower,
      higher);
}

PendingOperation RankPair::begin(Submission message, bool sends, int tag) {
  const bool lower_sends = sends == (rank_ < peer_);
  message.request.root = lower_sends ? 0 : 1;
  std::unique_lock lock(mutex_);
  OperationOrder& order = order_of(lower_sends, tag);
  if (runtime_ && queue_.empty() && order.has_room())
    return PendingOperation(
        std::move(order.begin(*runtime_, one_of(std::move(message)), clock_now()).handles.front()));
  auto handle = std::make_shared<LaterHandle>();
  if (!failure_.ok() || ending_.load()) {
    handle->fail(failure_.ok() ? Status::shut_down("the group was shut down") : failure_);
    return PendingOperation(std::move(handle));
  }
  queue_.push_back({std::move(message), &order, handle});
  changed_.notify_all();
  return PendingOperation(std::move(handle));
}

OperationOrder& RankPair::order_of(bool lower_sends, int tag) {
  std::unique_ptr<OperationOrder>& order = orders_[{lower_sends, tag}];
  if (!order)
    order = std::make_unique<OperationOrder>(fmt::format("{}.{}.", lower_sends ? "up" : "down", tag));
  return *order;
}

void RankPair::run() {
  bool goes_on = start();
  std::unique_lock lock(mutex_);
  while (goes_on) {
    changed_.wait(lock, [&] { return ending_.load() || !queue_.empty(); });
    if (ending_.load()) break;
    Queued next = std::move(queue_.front());
    queue_.front().handle = nullptr;
    lock.unlock();
    begin_queued(std::move(next));
    lock.lock();
    queue_.pop_front();
  }
  fail_queued(failure_.ok() ? Status::shut_down("the group was shut down") : failure_);
  over_ = true;
}

bool RankPair::start() {
  std::unique_ptr<Runtime> runtime;
  Status failure;
  try {
    runtime = ops::start_group({std::make_shared<GroupStore>(store_, in_words()), rank_ < peer_ ? 0 : 1, 2,
                                start_timeout_, [this] { return ending_.load(); }});
  } catch (const Error& error) {
    failure = {error.code(), fmt::format("{}: {}", in_words(), error.what())};
  }
  const std::lock_guard lock(mutex_);
  runtime_ = std::move(runtime);
  failure_ = std::move(failure);
  return failure_.ok();
}

// Waits for room, which comes with the end of earlier messages.
void RankPair::begin_queued(Queued queued) {
  constexpr std::chrono::milliseconds kLookAgain{20};
  while (!queued.order->has_room()) {
    if (ending_.load()) return queued.handle->fail(Status::shut_down("the group was shut down"));
    queued.order->wait_for_room(clock_now() + kLookAgain);
  }
  try {
    queued.handle->set(
        std::move(
            queued.order->begin(*runtime_, one_of(std::move(queued.message)), clock_now()).handles.front()),
        peer_);
  } catch (const Error& error) {
    queued.handle->fail({error.code(), error.what()});
  }
}

void RankPair::fail_queued(const Status& why) {
  for (Queued& each : queue_) {
    if (each.handle) each.handle->fail(why);
  }
  queue_.clear();
}

void RankPair::end() {
  ending_.store(true);
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool RankPair::over_within(Duration longest) {
  const std::lock_guard lock(mutex_);
  return over_ && (!runtime_ || runtime_->shutdown_within(longest));
}

void RankPair::abort() {
  const std::lock_guard lock(mutex_);
  if (runtime_) runtime_->abort();
}

}  // namespace rueda
