// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/point_to_point.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "core/base/error.h"
#include "core/base/log.h"

namespace rueda {

PointToPoint::PointToPoint(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Names names,
                           bool several_hosts, GroupOfPairs group)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      names_(std::move(names)),
      several_hosts_(several_hosts),
      group_(std::move(group)) {}

PointToPoint::~PointToPoint() {
  end();
  if (searcher_.joinable()) searcher_.join();
}

// A TCPStore answers one question of a client at a time, and the program may wait for a key.
void PointToPoint::connect() {
  if (sends_) return;
  try {
    store_ = store_->clone();
  } catch (const std::exception& error) {  // a store that the program has written in Python may have none
    log(LogLevel::info, "group {} has no store of its own for messages: {}", names_.group, error.what());
  }
  sends_ = std::make_unique<SendCounts>(store_, rank_, size_, several_hosts_);
}

PendingOperation PointToPoint::send(Submission message, int to, int tag, Duration start_timeout) {
  const std::lock_guard lock(mutex_);
  RankPair& pair = pair_with(to, start_timeout);
  if (size_ > 2) sends_->note(to, tag);
  return pair.send(std::move(message), tag);
}

PendingOperation PointToPoint::receive(Submission message, int from, int tag, Duration start_timeout) {
  const std::lock_guard lock(mutex_);
  RankPair& pair = pair_with(from, start_timeout);
  ++received_[{from, tag}];
  return pair.receive(std::move(message), tag);
}

PendingOperation PointToPoint::receive_from_any(Submission message, int tag, Duration start_timeout) {
  if (size_ == 2) return receive(std::move(message), 1 - rank_, tag, start_timeout);
  auto handle = std::make_shared<LaterHandle>();
  const std::lock_guard lock(mutex_);
  if (state_ != State::open) {
    handle->fail(Status::shut_down("the group was shut down"));
    return PendingOperation(std::move(handle));
  }
  connect();
  searches_.push_back({std::move(message), tag, start_timeout, handle});
  if (!searcher_.joinable()) searcher_ = std::thread([this] { search_all(); });
  changed_.notify_all();
  return PendingOperation(std::move(handle));
}

void PointToPoint::search_all() {
  constexpr std::chrono::microseconds kOfMemory{50}, kOfStore{500};
  const auto pause = several_hosts_ ? kOfStore : kOfMemory;
  std::unique_lock lock(mutex_);
  while (state_ == State::open) {
    Status of_store = several_hosts_ ? look_elsewhere(lock) : Status();
    search_once(of_store);
    if (!of_store.ok()) end_searches(lock);
    if (const Status failure = group_.failure(); !failure.ok()) fail_searches(failure);
    if (searches_.empty()) {
      changed_.wait(lock, [&] { return state_ != State::open || !searches_.empty(); });
    } else {
      changed_.wait_for(lock, pause);
    }
  }
  fail_searches(Status::shut_down("the group was shut down"));
  state_ = State::over;
  changed_.notify_all();
}

// A message that comes meanwhile is for the first receive of its tag, which has been looked at already.
void PointToPoint::search_once(Status& of_store) {
  std::set<int> without;
  std::erase_if(searches_, [&](Search& each) {
    if (without.contains(each.tag)) return false;
    const bool ends = find_source(each, of_store);
    if (!ends) without.insert(each.tag);
    return ends;
  });
}

// Without the lock, since sends must not wait for the store.
Status PointToPoint::look_elsewhere(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  Status failure;
  try {
    sends_->look_elsewhere();
  } catch (const std::exception& error) {
    failure = Status::backend_error(error.what());
  }
  lock.lock();
  return failure;
}

void PointToPoint::fail_searches(const Status& why) {
  for (Search& each : searches_) each.handle->fail(why);
  searches_.clear();
}

// The store goes with the rank that has it. That rank may have heard of a loss sooner than this one. What has
// come before that counts. A search that began meanwhile has its own time.
void PointToPoint::end_searches(std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::milliseconds kForLoss{500}, kBetweenLooks{5};
  const Time until = clock_now() + kForLoss;
  for (Search& each : searches_) each.store_has_failed = true;
  while (state_ == State::open && group_.failure().ok() && clock_now() < until)
    changed_.wait_for(lock, kBetweenLooks);
  Status of_store = several_hosts_ ? look_elsewhere(lock) : Status();
  search_once(of_store);
  if (const Status failure = group_.failure(); !failure.ok()) return fail_searches(failure);
  if (of_store.ok()) return;
  std::erase_if(searches_, [&](Search& each) {
    if (each.store_has_failed) each.handle->fail(of_store);
    return each.store_has_failed;
  });
}

// Returns false if the search has to go on. It fails only if no rank that can be asked has sent.
bool PointToPoint::find_source(Search& search, Status& of_store) {
  Status failure;
  for (int from = 0; from < size_; ++from) {
    if (from == rank_) continue;
    std::uint64_t& received = received_[{from, search.tag}];
    try {
      if (sends_->sent(from, search.tag) <= received) continue;
    } catch (const Error& error) {
      failure = {error.code(), error.what()};
      continue;
    } catch (const std::exception& error) {
      of_store = Status::backend_error(error.what());
      continue;
    }
    ++received;
    try {
      pair_with(from, search.start_timeout).receive_for(std::move(search.message), search.tag, search.handle);
      return true;
    } catch (const Error& error) {
      failure = {error.code(), error.what()};
    } catch (const std::exception& error) {  // no thread, say
      failure = Status::backend_error(error.what());
    }
  }
  if (!failure.ok()) search.handle->fail(failure);
  return !failure.ok();
}

RankPair& PointToPoint::pair_with(int peer, Duration start_timeout) {
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_ && peer != rank_, "rueda: rank ", rank_,
                    " cannot exchange messages with rank ", peer, " in a group of ", size_);
  std::unique_ptr<RankPair>& pair = pairs_[peer];
  if (!pair) {
    connect();
    const auto [lower, higher] = std::minmax(rank_, peer);
    auto store = c10::make_intrusive<c10d::PrefixStore>(fmt::format("pair-{}-{}", lower, higher), store_);
    const auto rank_of_job = [&](int rank) {
      return static_cast<Rank>(names_.ranks.at(static_cast<std::size_t>(rank)));
    };
    pair = std::make_unique<RankPair>(
        std::move(store), rank_, peer, group_, start_timeout,
        RankPair::Names{
            fmt::format("messages of group {} between its ranks {} and {}", names_.group, lower, higher),
            {rank_of_job(lower), rank_of_job(higher)}});
  }
  return *pair;
}

void PointToPoint::end() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::open) state_ = searcher_.joinable() ? State::ending : State::over;
  if (sends_) sends_->end();
  changed_.notify_all();
  for (auto& [peer, pair] : pairs_) pair->end();
}

bool PointToPoint::over_within(Duration longest) {
  std::unique_lock lock(mutex_);
  const Time until = clock_now() + longest;
  const auto left = [&] { return std::max(until - clock_now(), Duration::zero()); };
  const bool over = changed_.wait_until(lock, until, [&] { return state_ == State::over; });
  return over && (!sends_ || sends_->over_within(left())) &&
         std::ranges::all_of(pairs_, [&](const auto& each) { return each.second->over_within(left()); });
}

void PointToPoint::abort() {
  const std::lock_guard lock(mutex_);
  fail_searches(Status::backend_error("its program has aborted the group"));
  for (auto& [peer, pair] : pairs_) pair->abort();
}

}  // namespace rueda
