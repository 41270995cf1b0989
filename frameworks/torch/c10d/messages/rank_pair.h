// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks of a group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/base/time.h"
#include "core/engine/runtime.h"
#include "core/engine/submissions/submission.h"
#include "frameworks/torch/c10d/operations/group_store.h"
#include "frameworks/torch/c10d/operations/operation_order.h"
#include "frameworks/torch/c10d/operations/pending_operation.h"

namespace rueda {

// Purpose: how the jobs of two ranks begin, and why the group of both cannot go on: then none begins.
struct GroupOfPairs {
  StartGroup start;
  std::function<Status()> failure;
};

// Purpose: two ranks that exchange messages are a job of their own, so that no other rank takes part. A
// message is a broadcast in that job. The job begins with the first message, in a thread: until then, and
// when many messages are on their way, others wait in a queue, and no caller does. Any thread may call it;
// guarded by the mutex.
class RankPair {
 public:
  // As others know it: in words, and its two ranks in the job.
  struct Names {
    std::string words;
    std::vector<Rank> ranks;
  };

  // `store`: of this pair alone. `rank` and `peer`: in the group.
  RankPair(c10::intrusive_ptr<c10d::Store> store, int rank, int peer, GroupOfPairs group,
           Duration start_timeout, Names names);
  ~RankPair();
  RankPair(const RankPair&) = delete;
  RankPair& operator=(const RankPair&) = delete;

  // Messages of one direction and tag belong together by their order.
  PendingOperation send(Submission message, int tag) { return begin(std::move(message), true, tag); }
  PendingOperation receive(Submission message, int tag) { return begin(std::move(message), false, tag); }

  // As receive(); the operation goes to `handle`.
  void receive_for(Submission message, int tag, const std::shared_ptr<LaterHandle>& handle);

  // No more messages. Does not wait.
  void end();
  // After that: whether the job has ended on both ranks, within such a time.
  bool over_within(Duration longest);
  // All messages in flight fail.
  void abort();

 private:
  struct Queued {
    Submission message;
    std::shared_ptr<LaterHandle> handle;
  };
  // The messages of one direction and tag.
  struct Line {
    explicit Line(std::string prefix) : order(std::move(prefix)) {}
    OperationOrder order;
    std::deque<Queued> queue;  // messages that the thread has to begin
  };

  PendingOperation begin(Submission message, bool sends, int tag);
  void queue(Line& line, Submission message, const std::shared_ptr<LaterHandle>& handle);
  Line& line_of(bool lower_sends, int tag);
  void run();
  bool start();
  std::unique_ptr<Runtime> start_runtime();
  void begin_queued();
  void begin_first(Line& line);
  bool any_queued() const;
  void fail_queued();
  Status why_over() const;  // there is no job, or no more messages
  std::string in_words() const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int peer_;
  const GroupOfPairs group_;
  const Duration start_timeout_;
  const Names names_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Runtime> runtime_;  // null before the start, and if it has failed
  std::map<std::pair<bool, int>, std::unique_ptr<Line>> lines_;
  Status failure_;  // why there is no job
  std::atomic<bool> ending_{false};
  bool over_ = false;  // the thread ends
  std::thread thread_;
};

}  // namespace rueda
