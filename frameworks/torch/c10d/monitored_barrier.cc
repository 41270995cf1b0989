// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/monitored_barrier.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <thread>

#include "core/base/wait_check.h"

namespace rueda {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1};
// The store may be in the process of the lost rank, and its end is seen before the rank's.
constexpr std::chrono::seconds kUntilALossIsKnown{1};
// Mostly all ranks have the same timeout, and rank 0 gives up and names the missing ones at that moment.
constexpr std::chrono::milliseconds kForTheNames{100};
constexpr std::size_t kLongestList = 4096;

// The kinds of words. A rank arrives, or has given up; rank 0 lets it pass, or misses others, or it itself.
constexpr char kCame = '+', kGaveUp = '-';
constexpr char kPasses = '+', kOthersMissing = '-', kTooLate = '!';

std::string arrival_of(int rank) { return fmt::format("rueda-barrier/arrived/{}", rank); }
std::string release_of(int rank) { return fmt::format("rueda-barrier/released/{}", rank); }

}  // namespace

void MonitoredBarrier::wait(std::chrono::milliseconds timeout, bool names_all) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  try {
    rank_ == 0 ? wait_as_root(timeout, names_all) : wait_as_other(timeout);
  } catch (const c10::DistBackendError&) {
    throw;
  } catch (const c10::DistError& error) {
    fail_without_store(error);
  }
}

void MonitoredBarrier::fail(const std::string& why) const {
  C10_THROW_ERROR(DistBackendError, fmt::format("[Rank {}]: {}", rank_, why));
}

void MonitoredBarrier::check_failure(const Status& failure) const {
  if (!failure.ok()) fail(fmt::format("monitoredBarrier number {}: {}", calls_, failure.message));
}

void MonitoredBarrier::fail_without_store(const c10::Error& error) const {
  const Time until = clock_now() + kUntilALossIsKnown;
  while (clock_now() < until) {
    check_failure(failure_());
    std::this_thread::sleep_for(kLookAgain);
  }
  fail(fmt::format("monitoredBarrier number {} cannot ask the group's store: {}", calls_,
                   error.what_without_backtrace()));
}

// --- Words in the store.

void MonitoredBarrier::leave(const std::string& key, const Word& word) {
  store_->set(key, fmt::format("{}{}{}", word.call, word.kind, word.missing));
}

std::optional<MonitoredBarrier::Word> MonitoredBarrier::word_at(const std::string& key) {
  if (!store_->check({key})) return std::nullopt;
  const std::string text = store_->get_to_str(key);
  Word word;
  const char* const end = text.data() + text.size();
  const auto [kind, error] = std::from_chars(text.data(), end, word.call);
  if (error != std::errc() || kind == end) fail(fmt::format("the store has no word of a call at {}", key));
  word.kind = *kind;
  word.missing = std::string(kind + 1, end).substr(0, kLongestList);
  return word;
}

// --- Rank 0.

void MonitoredBarrier::look_at(int rank, Arrivals& arrivals) {
  const std::optional<Word> word = word_at(arrival_of(rank));
  if (!word || word->call < calls_) return;
  if (word->call == calls_ && word->kind == kCame) {
    arrivals.came.insert(rank);
  } else {
    arrivals.gave_up.insert(rank);
  }
}

// All are looked at in turn. One that has come may give up while another is still missing: it has come.
MonitoredBarrier::Arrivals MonitoredBarrier::arrivals_by(Time deadline, bool names_all) {
  RegularLooks looks;
  Arrivals arrivals;
  while (true) {
    const Status failure = failure_();
    for (int rank = 1; rank < size_; ++rank) {
      if (!arrivals.came.contains(rank) && !arrivals.gave_up.contains(rank)) look_at(rank, arrivals);
    }
    const std::size_t known = arrivals.came.size() + arrivals.gave_up.size();
    if (known + 1 == static_cast<std::size_t>(size_)) return arrivals;
    if (!names_all && !arrivals.gave_up.empty()) return arrivals;
    check_failure(failure);
    if (clock_now() >= deadline) return arrivals;
    looks.look_if_due();
    std::this_thread::sleep_for(kLookAgain);
  }
}

// Returns the missing ranks. Their word waits for them in the store.
std::vector<int> MonitoredBarrier::release(const Arrivals& arrivals) {
  std::vector<int> missing;
  for (int rank = 1; rank < size_; ++rank) {
    if (!arrivals.came.contains(rank)) missing.push_back(rank);
  }
  const std::string names = fmt::format("{}", fmt::join(missing, ", "));
  for (int rank = 1; rank < size_; ++rank) {
    const char kind = missing.empty() ? kPasses : arrivals.came.contains(rank) ? kOthersMissing : kTooLate;
    leave(release_of(rank), {calls_, kind, names});
  }
  return missing;
}

void MonitoredBarrier::wait_as_root(std::chrono::milliseconds timeout, bool names_all) {
  const Time deadline = clock_now() + timeout;
  if (timeout <= std::chrono::milliseconds::zero() && !names_all) {
    release({});
    C10_THROW_ERROR(DistBackendError,
                    fmt::format("Rank 0 timed out in monitoredBarrier after {} ms.", timeout.count()));
  }
  const Arrivals arrivals = arrivals_by(deadline, names_all);
  const std::vector<int> missing = release(arrivals);
  if (missing.empty()) return;
  const int first = arrivals.gave_up.empty() ? missing[0] : *arrivals.gave_up.begin();
  const bool one = !names_all || missing.size() == 1;
  const std::string whom = names_all ? fmt::format("{}", fmt::join(missing, ", ")) : std::to_string(first);
  const std::string hint =
      arrivals.gave_up.empty()
          ? "Look at what that rank does."
          : fmt::format("Before rank 0 came, the call was given up by {}. Look at what rank 0 did.",
                        fmt::join(arrivals.gave_up, ", "));
  fail(fmt::format("{} {} failed to pass monitoredBarrier in {} ms. {}", one ? "Rank" : "Ranks", whom,
                   timeout.count(), hint));
}

// --- The others.

// The release of this call, or of a later one if rank 0 has given up this call meanwhile.
std::optional<MonitoredBarrier::Word> MonitoredBarrier::release_by(Time deadline) {
  RegularLooks looks;
  while (true) {
    const Status failure = failure_();
    std::optional<Word> word = word_at(release_of(rank_));
    if (word && word->call >= calls_) return word;
    check_failure(failure);
    if (clock_now() >= deadline) return std::nullopt;
    looks.look_if_due();
    std::this_thread::sleep_for(kLookAgain);
  }
}

void MonitoredBarrier::wait_as_other(std::chrono::milliseconds timeout) {
  leave(arrival_of(rank_), {calls_, kCame});
  const std::optional<Word> word = release_by(clock_now() + timeout + kForTheNames);
  if (word && word->call == calls_ && word->kind == kPasses) return;
  if (word && (word->call > calls_ || word->kind == kTooLate))
    fail(
        fmt::format("Rank {} came too late to monitoredBarrier number {}: rank 0 has ended that call without "
                    "it. Allow more time there.",
                    rank_, calls_));
  if (!word) leave(arrival_of(rank_), {calls_, kGaveUp});
  const std::string more = word ? fmt::format("It has missed: {}.", word->missing)
                                : fmt::format("It has not answered in {} ms.", timeout.count());
  fail(
      fmt::format("Rank {} successfully reached monitoredBarrier, but received errors while waiting for "
                  "send/recv from rank 0. Please check rank 0 logs for faulty rank. {}",
                  rank_, more));
}

}  // namespace rueda
