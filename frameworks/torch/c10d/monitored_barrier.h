// SPDX-License-Identifier: Apache-2.0
// A barrier that names the ranks that do not come.
#pragma once

#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: c10d's monitored_barrier(). Ranks meet at the group's store, so it tells of missing ranks whatever
// operations are in flight. Rank 0 waits for all others, and releases them. Calls belong together by their
// number: a rank that comes after rank 0 has given up its call is told so. One call at a time.
class MonitoredBarrier {
 public:
  // `failure`: why the group cannot go on, as a lost rank.
  MonitoredBarrier(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::function<Status()> failure)
      : store_(std::move(store)), rank_(rank), size_(size), failure_(std::move(failure)) {}

  // Throws c10::DistBackendError with the first rank that has not come in time, or with all of these; at once
  // if a rank is lost.
  void wait(std::chrono::milliseconds timeout, bool names_all);

 private:
  // What a rank leaves in the store.
  struct Word {
    std::uint64_t call = 0;
    char kind = 0;
    std::string missing{};  // ranks
  };
  struct Arrivals {
    std::set<int> came;
    std::set<int> gave_up;  // before rank 0 came
  };

  void wait_as_root(std::chrono::milliseconds timeout, bool names_all);
  void wait_as_other(std::chrono::milliseconds timeout);
  Arrivals arrivals_by(Time deadline, bool names_all);
  void look_at(int rank, Arrivals& arrivals);
  std::vector<int> release(const Arrivals& arrivals);
  std::optional<Word> release_by(Time deadline);
  std::optional<Word> word_at(const std::string& key);
  void leave(const std::string& key, const Word& word);
  [[noreturn]] void fail(const std::string& why) const;
  [[noreturn]] void fail_without_store(const c10::Error& error) const;
  void check_failure(const Status& failure) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int size_;
  const std::function<Status()> failure_;
  std::mutex mutex_;
  std::uint64_t calls_ = 0;
};

}  // namespace rueda
