// SPDX-License-Identifier: Apache-2.0
// Batches made on other threads while the model computes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace rueda::examples {

// Purpose: has worker threads make batch number n by a function of n, at most `depth` batches ahead, and
// delivers them in order. As a batch depends on its number alone, the number of workers changes nothing but
// the time. Owner: one thread constructs, calls next() and destroys; `make` runs on the workers, several at
// once. Lifetime: the captures of `make` must outlive it; the destructor joins after the batches in work.
template <class Batch>
class Prefetcher {
 public:
  using Make = std::function<Batch(std::uint64_t number)>;
  static constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();

  // Batches first .. end - 1. Without workers next() makes the batch itself. Throws std::invalid_argument if
  // depth is 0.
  Prefetcher(Make make, std::size_t workers, std::size_t depth, std::uint64_t first = 0,
             std::uint64_t end = kEndless)
      : make_(std::move(make)), slots_(depth), end_(end), wanted_(first), started_(first) {
    if (depth == 0) throw std::invalid_argument("a prefetcher needs room for at least one batch");
    try {
      for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // no more threads: those that run must end before the members do
      stop();
      throw;
    }
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher() { stop(); }

  // The next batch; waits until it is made. Throws the exception of `make` for this batch, once; from then
  // on, and behind the last batch, std::logic_error.
  Batch next() {
    if (failed_ || wanted_ >= end_) throw std::logic_error("a prefetcher has no batch behind its end");
    if (threads_.empty()) {
      failed_ = true;
      Batch batch = make_(wanted_);
      failed_ = false;
      ++wanted_;
      return batch;
    }
    Slot slot;
    {
      std::unique_lock lock(mutex_);
      Slot& next = slots_[wanted_ % slots_.size()];
      made_.wait(lock, [&] { return next.batch || next.error; });
      slot = std::exchange(next, {});
      failed_ = slot.error != nullptr;
      stopped_ = stopped_ || failed_;
      ++wanted_;
    }
    taken_.notify_all();
    if (slot.error) std::rethrow_exception(slot.error);
    return *std::move(slot.batch);
  }

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      taken_.wait(lock,
                  [this] { return stopped_ || started_ >= end_ || started_ < wanted_ + slots_.size(); });
      if (stopped_ || started_ >= end_) return;
      const std::uint64_t number = started_++;
      lock.unlock();
      Slot slot;
      try {
        slot.batch.emplace(make_(number));
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      slots_[number % slots_.size()] = std::move(slot);
      made_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    taken_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Make make_;
  std::mutex mutex_;
  std::condition_variable made_;   // a slot was filled
  std::condition_variable taken_;  // a slot became free, or all is over
  std::vector<Slot> slots_;        // batch n in slot n % depth
  std::uint64_t end_;
  std::uint64_t wanted_;   // the batch that next() gives
  std::uint64_t started_;  // the batch that the next free worker makes
  bool stopped_ = false;
  bool failed_ = false;  // of the owner's thread alone
  std::vector<std::thread> threads_;
};

}  // namespace rueda::examples
