// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/group_job.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "core/base/system/fork_guard.h"

namespace rueda {
namespace {

constexpr std::chrono::hours kUntilOthersEnd{24 * 365};

}  // namespace

GroupJobs& GroupJobs::of_process() {
  static GroupJobs& jobs = *new GroupJobs;  // never destroyed: a forked child must not
  return jobs;
}

GroupJobs::GroupJobs() {
  std::atexit([] { of_process().end_all(); });
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
  const std::lock_guard lock(mutex_);
  remove_ended();
  jobs_.push_back(job);
  return job;
}

void GroupJobs::retire(const std::shared_ptr<GroupJob>& job) {
  if (is_forked_child()) return;
  const std::lock_guard lock(mutex_);
  if (std::erase(jobs_, job) == 0) return;
  job->completer()->end(kGraceOfFutures);
  job->end_within(Duration::zero());
  retired_.push_back(job);
  remove_ended();
}

// Their threads are over, so nothing waits here. A job with Futures that wait stays in the list.
void GroupJobs::remove_ended() {
  std::erase_if(retired_, [](const std::shared_ptr<GroupJob>& job) {
    return !job->completer()->running() && job->end_within(Duration::zero());
  });
}

void GroupJobs::end_all() {
  if (is_forked_child()) return;
  std::vector<std::shared_ptr<GroupJob>> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(jobs_);
    all.insert(all.end(), retired_.begin(), retired_.end());
    retired_.clear();
  }
  for (const auto& job : all) job->completer()->stop(kGraceOfFutures);
  for (const auto& job : all) job->end_within(Duration::zero());
  for (const auto& job : all) job->end_within(kUntilOthersEnd);
}

}  // namespace rueda
