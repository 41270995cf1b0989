// SPDX-License-Identifier: Apache-2.0
// The job behind the c10d::Backend of a group, and the end of all groups of a process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/c10d/future_completer.h"
#include "frameworks/torch/c10d/messages/point_to_point.h"
#include "frameworks/torch/c10d/operations/operation_order.h"

namespace rueda {

// For operations with Futures that somebody still holds when the group ends.
inline constexpr std::chrono::seconds kGraceOfFutures{1};

// Purpose: a job of its own for the ranks of one group. Its end needs all of them, but c10d lets a rank
// destroy a group when it likes: so it may go on for a while without its group. Owned by GroupJobs.
class GroupJob {
 public:
  GroupJob(std::unique_ptr<Runtime> runtime, std::unique_ptr<PointToPoint> messages)
      : runtime_(std::move(runtime)), messages_(std::move(messages)) {}

  Runtime& runtime() { return *runtime_; }
  OperationOrder& order() { return order_; }
  PointToPoint& messages() { return *messages_; }
  const std::shared_ptr<FutureCompleter>& completer() const { return completer_; }

  // This rank needs the group no more. Waits for so long until all ranks have said so; whether they have.
  bool end_within(Duration longest);
  // All operations in flight fail.
  void abort();

 private:
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<PointToPoint> messages_;
  OperationOrder order_{"c10d."};
  const std::shared_ptr<FutureCompleter> completer_ = std::make_shared<FutureCompleter>();
};

// A process that ends well is no loss for the others: it goes with them.
inline constexpr std::chrono::hours kUntilOthersEnd{24 * 365};
// One that fails is a loss: the launcher has to hear of it.
inline constexpr std::chrono::milliseconds kGraceAfterFailure{200};

// Purpose: the jobs of all groups of this process, until they have ended on all ranks. Any thread; guarded by
// its mutex, under which no job ends: that may wait for Python's lock. In a forked child it does nothing.
class GroupJobs {
 public:
  static GroupJobs& of_process();

  std::shared_ptr<GroupJob> add(std::unique_ptr<Runtime> runtime, std::unique_ptr<PointToPoint> messages);
  // Nobody uses the group any more. Waits for nobody, so its caller may hold Python's lock.
  void retire(const std::shared_ptr<GroupJob>& job);
  // The process ends: waits for the other ranks, for so long at most. Without Python's lock.
  void end_all(Duration longest);

 private:
  GroupJobs();
  void end_retired();

  std::mutex mutex_;
  std::condition_variable rested_;
  int busy_ = 0;  // threads that have jobs which are in no list
  std::vector<std::shared_ptr<GroupJob>> jobs_;
  std::vector<std::shared_ptr<GroupJob>> retired_;
  std::vector<std::shared_ptr<GroupJob>> left_;  // at the end of the process
};

}  // namespace rueda
