// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/rank_pair.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/base/error.h"

namespace rueda {
namespace {

constexpr const char* kGivenUp = "given-up";  // in the store: after what time a rank has given up the start

}  // namespace

RankPair::RankPair(c10::intrusive_ptr<c10d::Store> store, int rank, int peer, GroupOfPairs group,
                   Duration start_timeout, Names names)
    : store_(std::move(store)),
      rank_(rank),
      peer_(peer),
      group_(std::move(group)),
      start_timeout_(start_timeout),
      names_(std::move(names)),
      thread_([this] { run(); }) {}

RankPair::~RankPair() {
  end();
  thread_.join();
}

std::string RankPair::in_words() const {
  const auto [lower, higher] = std::minmax(rank_, peer_);
  return fmt::format("messages between the ranks {} and {} of the group", lower, higher);
}

PendingOperation RankPair::begin(Submission message, bool sends, int tag) {
  const bool lower_sends = sends == (rank_ < peer_);
  message.request.root = lower_sends ? 0 : 1;
  const std::lock_guard lock(mutex_);
  Line& line = line_of(lower_sends, tag);
  if (runtime_ && line.queue.empty() && line.order.has_room())
    return PendingOperation(
        std::move(line.order.begin(*runtime_, one_of(std::move(message)), Duration::zero()).handles.front()));
  auto handle = std::make_shared<LaterHandle>();
  queue(line, std::move(message), handle);
  return PendingOperation(std::move(handle));
}

void RankPair::receive_for(Submission message, int tag, const std::shared_ptr<LaterHandle>& handle) {
  const bool lower_sends = rank_ > peer_;
  message.request.root = lower_sends ? 0 : 1;
  const std::lock_guard lock(mutex_);
  queue(line_of(lower_sends, tag), std::move(message), handle);
}

void RankPair::queue(Line& line, Submission message, const std::shared_ptr<LaterHandle>& handle) {
  if (!failure_.ok() || ending_.load()) return handle->fail(why_over());
  line.queue.push_back({std::move(message), handle});
  changed_.notify_all();
}

RankPair::Line& RankPair::line_of(bool lower_sends, int tag) {
  std::unique_ptr<Line>& line = lines_[{lower_sends, tag}];
  if (!line) line = std::make_unique<Line>(fmt::format("{}.{}.", lower_sends ? "up" : "down", tag));
  return *line;
}

bool RankPair::any_queued() const {
  return std::ranges::any_of(lines_, [](const auto& each) { return !each.second->queue.empty(); });
}

// Messages that find no room wait for the end of earlier ones. That is rare, so the thread just looks again.
void RankPair::run() {
  constexpr std::chrono::microseconds kLookAgain{200};
  const bool started = start();
  std::unique_lock lock(mutex_);
  while (started && !ending_.load()) {
    begin_queued();
    if (any_queued()) {
      changed_.wait_for(lock, kLookAgain);
    } else {
      changed_.wait(lock, [&] { return ending_.load() || any_queued(); });
    }
  }
  fail_queued();
  over_ = true;
}

// The other rank hears at once that it comes too late.
std::unique_ptr<Runtime> RankPair::start_runtime() {
  if (store_->check({kGivenUp}))
    throw PeerLost(Status::peer_lost(
        fmt::format("rank {} had no message of this one within {}.", peer_, store_->get_to_str(kGivenUp))));
  const Time deadline = clock_now() + start_timeout_;
  try {
    return group_.start({.store = std::make_shared<GroupStore>(store_, in_words()),
                         .rank = rank_ < peer_ ? 0 : 1,
                         .size = 2,
                         .start_timeout = start_timeout_,
                         .unwanted = [this] { return ending_.load() || !group_.failure().ok(); },
                         .name = names_.words,
                         .ranks = names_.ranks});
  } catch (const PeerLost&) {
    if (clock_now() < deadline || ending_.load() || !group_.failure().ok()) throw;
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(start_timeout_);
    store_->set(kGivenUp, fmt::format("{} ms", limit.count()));
    throw PeerLost(Status::peer_lost(
        fmt::format("rank {} had no message for this one within {} ms.", peer_, limit.count())));
  }
}

bool RankPair::start() {
  std::unique_ptr<Runtime> runtime;
  Status failure;
  const auto fail = [&](StatusCode code, const char* words) {
    failure = ending_.load() ? why_over() : group_.failure();
    if (failure.ok())
      failure = {code, fmt::format("{}: {} All later messages between them fail, too. Exchange them in a new "
                                   "group, or give this one a longer timeout.",
                                   in_words(), words)};
  };
  try {
    runtime = start_runtime();
  } catch (const Error& error) {
    fail(error.code(), error.what());
  } catch (const c10::Error& error) {  // of the store
    fail(StatusCode::backend_error, error.what_without_backtrace());
  }
  const std::lock_guard lock(mutex_);
  runtime_ = std::move(runtime);
  failure_ = std::move(failure);
  return failure_.ok();
}

void RankPair::begin_queued() {
  for (auto& [key, line] : lines_) {
    while (!line->queue.empty() && line->order.has_room()) begin_first(*line);
  }
}

void RankPair::begin_first(Line& line) {
  Queued first = std::move(line.queue.front());
  line.queue.pop_front();
  try {
    OperationOrder::Begun begun =
        line.order.begin(*runtime_, one_of(std::move(first.message)), Duration::zero());
    first.handle->set(std::move(begun.handles.front()), peer_);
  } catch (const Error& error) {
    first.handle->fail({error.code(), error.what()});
  }
}

Status RankPair::why_over() const {
  return failure_.ok() ? Status::shut_down("the group was shut down") : failure_;
}

void RankPair::fail_queued() {
  for (auto& [key, line] : lines_) {
    for (Queued& each : line->queue) each.handle->fail(why_over());
    line->queue.clear();
  }
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
