// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of a group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "frameworks/torch/c10d/messages/rank_pair.h"
#include "frameworks/torch/c10d/messages/send_counts.h"
#include "frameworks/torch/c10d/operations/pending_operation.h"

namespace rueda {

// Purpose: a RankPair for each rank with which this one exchanges messages, made with the first one. Receives
// from any source wait in a list; a thread, which begins with the first of them, looks for a rank that has
// sent, and lets the pair receive. Any thread; guarded by the mutex.
class PointToPoint {
 public:
  // The group as others know it, and its ranks in the job.
  struct Names {
    std::string group;
    std::vector<std::uint64_t> ranks;
  };

  // `several_hosts`: not all ranks share memory.
  PointToPoint(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Names names, bool several_hosts,
               GroupOfPairs group);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  // A message is a broadcast in place, and may wait before it is submitted. `start_timeout`: for the other
  // rank's first message.
  PendingOperation send(Submission message, int to, int tag, Duration start_timeout);
  PendingOperation receive(Submission message, int from, int tag, Duration start_timeout);
  // The tag's next message, whoever has sent it.
  PendingOperation receive_from_any(Submission message, int tag, Duration start_timeout);

  // No more messages; does not wait.
  void end();
  // After that: whether all is over on the other ranks, too, and all threads here, within such a time.
  bool over_within(Duration longest);
  void abort();

 private:
  struct Search {
    Submission message;
    int tag;
    Duration start_timeout;
    std::shared_ptr<LaterHandle> handle;
    bool store_has_failed = false;  // since it began
  };

  void connect();
  RankPair& pair_with(int peer, Duration start_timeout);
  void search_all();
  // `of_store`: why the store cannot be asked; left alone where it can.
  void search_once(Status& of_store);
  bool find_source(Search& search, Status& of_store);
  // After a moment in which the loss of a rank may be heard of.
  void end_searches(std::unique_lock<std::mutex>& lock);
  Status look_elsewhere(std::unique_lock<std::mutex>& lock);
  void fail_searches(const Status& why);

  c10::intrusive_ptr<c10d::Store> store_;  // from the first message on, a client of its own
  const int rank_;
  const int size_;
  const Names names_;
  const bool several_hosts_;
  const GroupOfPairs group_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<RankPair>> pairs_;
  std::unique_ptr<SendCounts> sends_;                      // made with the first message
  std::map<std::pair<int, int>, std::uint64_t> received_;  // by source and tag: messages that have a receive
  std::deque<Search> searches_;
  std::condition_variable changed_;
  enum class State { open, ending, over } state_ = State::open;  // over: the thread ends
  std::thread searcher_;
};

}  // namespace rueda
