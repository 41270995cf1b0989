// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/monitored_barrier.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <thread>
#include <vector>

#include "core/base/wait_check.h"

namespace rueda {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1};
constexpr const char* kNotAllCame = "-";

}  // namespace

std::string MonitoredBarrier::arrival_of(int rank) const {
  return fmt::format("rueda-barrier/arrived/{}", rank);
}

std::string MonitoredBarrier::release_of(int rank) const {
  return fmt::format("rueda-barrier/released/{}", rank);
}

void MonitoredBarrier::wait(std::chrono::milliseconds timeout, bool names_all) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  return rank_ == 0 ? wait_as_root(timeout, names_all) : wait_as_other(timeout);
}

bool MonitoredBarrier::appears(const std::string& key, Time deadline) {
  RegularLooks looks;
  while (!store_->check({key})) {
    if (clock_now() >= deadline) return false;
    looks.look_if_due();
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

// The ranks that have come, each with the number of its call. All are looked at in turn: one that has come
// may give up, and take its word back, while another is still missing.
std::map<int, std::string> MonitoredBarrier::arrivals_by(Time deadline) {
  RegularLooks looks;
  std::map<int, std::string> arrived;
  while (true) {
    for (int rank = 1; rank < size_; ++rank) {
      if (arrived.contains(rank) || !store_->check({arrival_of(rank)})) continue;
      arrived[rank] = store_->get_to_str(arrival_of(rank));
      store_->deleteKey(arrival_of(rank));
    }
    if (static_cast<int>(arrived.size()) == size_ - 1 || clock_now() >= deadline) return arrived;
    looks.look_if_due();
    std::this_thread::sleep_for(kLookAgain);
  }
}

void MonitoredBarrier::wait_as_root(std::chrono::milliseconds timeout, bool names_all) {
  const Time deadline = clock_now() + timeout;
  if (timeout <= std::chrono::milliseconds::zero() && !names_all)
    C10_THROW_ERROR(DistBackendError,
                    fmt::format("Rank 0 timed out in monitoredBarrier after {} ms.", timeout.count()));
  const std::map<int, std::string> arrived = arrivals_by(deadline);
  std::vector<int> missing;
  for (int rank = 1; rank < size_ && (names_all || missing.empty()); ++rank) {
    if (!arrived.contains(rank)) missing.push_back(rank);
  }
  for (const auto& [rank, call] : arrived)
    store_->set(release_of(rank), missing.empty() ? call : call + kNotAllCame);
  if (missing.empty()) return;
  C10_THROW_ERROR(
      DistBackendError,
      fmt::format("[Rank 0]: {} {} failed to pass monitoredBarrier in {} ms. Look at what that rank does.",
                  missing.size() == 1 && !names_all ? "Rank" : "Ranks", fmt::join(missing, ", "),
                  timeout.count()));
}

void MonitoredBarrier::wait_as_other(std::chrono::milliseconds timeout) {
  const Time deadline = clock_now() + timeout;
  const std::string call = fmt::format("{}", calls_);
  store_->set(arrival_of(rank_), call);
  std::string release;
  while (release != call && release != call + kNotAllCame && appears(release_of(rank_), deadline)) {
    release = store_->get_to_str(release_of(rank_));
    if (clock_now() >= deadline) break;
    if (release != call && release != call + kNotAllCame) std::this_thread::sleep_for(kLookAgain);
  }
  if (release == call) return;
  if (release.empty()) store_->deleteKey(arrival_of(rank_));
  C10_THROW_ERROR(
      DistBackendError,
      fmt::format(
          "[Rank {}]: Rank {} successfully reached monitoredBarrier, but received errors while waiting "
          "for send/recv from rank 0. Please check rank 0 logs for faulty rank.",
          rank_, rank_));
}

}  // namespace rueda
