// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/group_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "core/base/log.h"
#include "core/base/system/fork_guard.h"

namespace rueda {
namespace {

// Another thread may be at jobs for so long. One that needs Python's lock after Python's end stays for ever.
constexpr std::chrono::seconds kLongestLook{5};
constexpr std::chrono::seconds kSilentWait{30};  // for the other ranks, at the end of the process

// Waits for so long. Those that have not ended stay in the list.
void end_jobs(std::vector<std::shared_ptr<GroupJob>>& jobs, Duration longest) {
  const Time until = clock_now() + longest;
  std::erase_if(jobs, [until](const std::shared_ptr<GroupJob>& job) {
    return job->end_within(std::max(until - clock_now(), Duration::zero()));
  });
}

// Their threads are over, so nothing waits here. A job with Futures that wait goes on.
bool is_over(GroupJob& job) { return !job.completer()->running() && job.end_within(Duration::zero()); }

}  // namespace

GroupJobs& GroupJobs::of_process() {
  static GroupJobs& jobs = *new GroupJobs;  // never destroyed: a forked child must not
  return jobs;
}

GroupJobs::GroupJobs() {
  std::atexit([] { of_process().end_all(kUntilOthersEnd); });
}

bool GroupJob::end_within(Duration longest) {
  const Time until = clock_now() + longest;
  messages_->end();
  const bool over = runtime_->shutdown_within(longest);
  return messages_->over_within(std::max(until - clock_now(), Duration::zero())) && over;
}

void GroupJob::abort() {
  messages_->abort();
  runtime_->abort();
}

std::shared_ptr<GroupJob> GroupJobs::add(std::unique_ptr<Runtime> runtime,
                                         std::unique_ptr<PointToPoint> messages) {
  auto job = std::make_shared<GroupJob>(std::move(runtime), std::move(messages));
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  end_retired();
  return job;
}

void GroupJobs::retire(const std::shared_ptr<GroupJob>& job) {
  if (is_forked_child()) return;
  {
    const std::lock_guard lock(mutex_);
    if (std::erase(jobs_, job) == 0) return;
    ++busy_;
  }
  job->completer()->end(kGraceOfFutures);
  job->end_within(Duration::zero());
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(job);
    --busy_;
  }
  rested_.notify_all();
  end_retired();
}

// The last references to tensors go with a job, and those of Python take its lock.
void GroupJobs::end_retired() {
  std::vector<std::shared_ptr<GroupJob>> ending;
  {
    const std::lock_guard lock(mutex_);
    ending.swap(retired_);
    ++busy_;
  }
  std::erase_if(ending, [](const std::shared_ptr<GroupJob>& job) { return is_over(*job); });
  {
    const std::lock_guard lock(mutex_);
    retired_.insert(retired_.end(), ending.begin(), ending.end());
    --busy_;
  }
  rested_.notify_all();
}

// A job that has not ended stays as it is: its thread goes with the process. Another thread may have some at
// the moment.
void GroupJobs::end_all(Duration longest) {
  if (is_forked_child()) return;
  std::vector<std::shared_ptr<GroupJob>> all;
  {
    std::unique_lock lock(mutex_);
    rested_.wait_for(lock, std::min<Duration>(longest, kLongestLook), [this] { return busy_ == 0; });
    all.swap(jobs_);
    all.insert(all.end(), retired_.begin(), retired_.end());
    retired_.clear();
  }
  for (const auto& job : all) job->completer()->stop(kGraceOfFutures);
  for (const auto& job : all) job->end_within(Duration::zero());
  end_jobs(all, std::min<Duration>(longest, kSilentWait));
  if (longest > kSilentWait && !all.empty()) {
    notice(fmt::format(
        "This process has come to its end, and waits for other processes, which use {} of its groups of "
        "torch.distributed: a rank that ends before them counts as lost.",
        all.size()));
    end_jobs(all, longest - kSilentWait);
  }
  const std::lock_guard lock(mutex_);
  left_.insert(left_.end(), all.begin(), all.end());
}

}  // namespace rueda
