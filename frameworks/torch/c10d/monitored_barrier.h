// SPDX-License-Identifier: Apache-2.0
// A barrier that names the ranks that do not come.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/base/time.h"

namespace rueda {

// Purpose: c10d's monitored_barrier(). Ranks meet at the group's store, so it tells of missing ranks whatever
// operations are in flight. Rank 0 waits for all others, and releases them. One call at a time.
class MonitoredBarrier {
 public:
  MonitoredBarrier(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  // Throws c10::DistBackendError with the first rank that has not come in time, or with all of these.
  void wait(std::chrono::milliseconds timeout, bool names_all);

 private:
  void wait_as_root(std::chrono::milliseconds timeout, bool names_all);
  void wait_as_other(std::chrono::milliseconds timeout);
  std::map<int, std::string> arrivals_by(Time deadline);
  bool appears(const std::string& key, Time deadline);
  std::string arrival_of(int rank) const;
  std::string release_of(int rank) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  std::mutex mutex_;
  std::uint64_t calls_ = 0;
};

}  // namespace rueda
