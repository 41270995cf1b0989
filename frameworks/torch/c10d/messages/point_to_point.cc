// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/point_to_point.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "core/base/error.h"

namespace rueda {

PointToPoint::PointToPoint(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Names names,
                           bool several_hosts, StartGroup start)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      names_(std::move(names)),
      several_hosts_(several_hosts),
      start_group_(std::move(start)),
      sends_(store_, rank, size, several_hosts) {}

PointToPoint::~PointToPoint() {
  end();
  if (searcher_.joinable()) searcher_.join();
}

PendingOperation PointToPoint::send(Submission message, int to, int tag, Duration start_timeout) {
  const std::lock_guard lock(mutex_);
  RankPair& pair = pair_with(to, start_timeout);
  if (size_ > 2) sends_.note(to, tag);
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
  searches_.push_back({std::move(message), tag, start_timeout, handle});
  if (!searcher_.joinable()) searcher_ = std::thread([this] { search_all(); });
  changed_.notify_all();
  return PendingOperation(std::move(handle));
}

void PointToPoint::search_all() {
  constexpr std::chrono::microseconds kOfMemory{50}, kOfStore{500};
  const auto pause = several_hosts_ ? kOfStore : kOfMemory;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (several_hosts_) look_elsewhere(lock);
    std::erase_if(searches_, [&](Search& each) { return find_source(each); });
    if (searches_.empty()) {
      changed_.wait(lock, [&] { return ending_ || !searches_.empty(); });
    } else {
      changed_.wait_for(lock, pause);
    }
  }
  fail_searches(Status::shut_down("the group was shut down"));
}

// Without the lock, since sends must not wait for the store.
void PointToPoint::look_elsewhere(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  Status failure;
  try {
    sends_.look_elsewhere();
  } catch (const std::exception& error) {
    failure = Status::backend_error(error.what());
  }
  lock.lock();
  if (!failure.ok()) fail_searches(failure);
}

void PointToPoint::fail_searches(const Status& why) {
  for (Search& each : searches_) each.handle->fail(why);
  searches_.clear();
}

// Returns false if the search has to go on.
bool PointToPoint::find_source(Search& search) {
  try {
    for (int from = 0; from < size_; ++from) {
      if (from == rank_) continue;
      std::uint64_t& received = received_[{from, search.tag}];
      if (sends_.sent(from, search.tag) <= received) continue;
      ++received;
      pair_with(from, search.start_timeout).receive_for(std::move(search.message), search.tag, search.handle);
      return true;
    }
    return false;
  } catch (const Error& error) {
    search.handle->fail({error.code(), error.what()});
  } catch (const std::exception& error) {  // of the store
    search.handle->fail(Status::backend_error(error.what()));
  }
  return true;
}

RankPair& PointToPoint::pair_with(int peer, Duration start_timeout) {
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_ && peer != rank_, "rueda: rank ", rank_,
                    " cannot exchange messages with rank ", peer, " in a group of ", size_);
  std::unique_ptr<RankPair>& pair = pairs_[peer];
  if (!pair) {
    const auto [lower, higher] = std::minmax(rank_, peer);
    auto store = c10::make_intrusive<c10d::PrefixStore>(fmt::format("pair-{}-{}", lower, higher), store_);
    const auto rank_of_job = [&](int rank) {
      return static_cast<Rank>(names_.ranks.at(static_cast<std::size_t>(rank)));
    };
    pair = std::make_unique<RankPair>(
        std::move(store), rank_, peer, start_group_, start_timeout,
        RankPair::Names{
            fmt::format("messages of group {} between its ranks {} and {}", names_.group, lower, higher),
            {rank_of_job(lower), rank_of_job(higher)}});
  }
  return *pair;
}

void PointToPoint::end() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  sends_.end();
  changed_.notify_all();
  for (auto& [peer, pair] : pairs_) pair->end();
}

bool PointToPoint::over_within(Duration longest) {
  const std::lock_guard lock(mutex_);
  const Time until = clock_now() + longest;
  return std::ranges::all_of(pairs_, [&](const auto& each) {
    return each.second->over_within(std::max(until - clock_now(), Duration::zero()));
  });
}

void PointToPoint::abort() {
  const std::lock_guard lock(mutex_);
  for (auto& [peer, pair] : pairs_) pair->abort();
}

}  // namespace rueda
