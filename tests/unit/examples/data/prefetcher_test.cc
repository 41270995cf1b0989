// SPDX-License-Identifier: Apache-2.0
// Order, bound and errors of batches made ahead on other threads.
#include "examples/lib/data/prefetcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace rueda::examples {
namespace {

TEST(Prefetcher, DeliversInOrderWhateverTheWorkersDo) {
  for (const std::size_t workers : {0, 1, 4}) {
    Prefetcher<std::unique_ptr<std::uint64_t>> batches(
        [](std::uint64_t number) {
          if (number % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return std::make_unique<std::uint64_t>(number);
        },
        workers, 5, 7, 107);
    for (std::uint64_t number = 7; number < 107; ++number) ASSERT_EQ(*batches.next(), number) << workers;
    EXPECT_THROW(batches.next(), std::logic_error);
  }
}

TEST(Prefetcher, StaysWithinItsDepth) {
  std::atomic<std::uint64_t> most = 0;
  std::atomic<std::uint64_t> taken = 0;
  Prefetcher<int> batches(
      [&](std::uint64_t number) {
        // `taken` may lag by the one that next() hands over just now.
        std::uint64_t ahead = number - std::min<std::uint64_t>(taken, number), seen = most;
        while (seen < ahead && !most.compare_exchange_weak(seen, ahead)) {}
        return 0;
      },
      4, 3);
  for (int i = 0; i < 200; ++i) {
    batches.next();
    ++taken;
  }
  EXPECT_LE(most, 3U);
}

TEST(Prefetcher, MakesAheadWhileNobodyAsks) {
  std::atomic<int> made = 0;
  Prefetcher<int> batches([&](std::uint64_t) { return ++made; }, 1, 3);
  while (made < 3) std::this_thread::yield();
  batches.next();
  while (made < 4) std::this_thread::yield();
}

TEST(Prefetcher, AnErrorComesWhereItsBatchWould) {
  for (const std::size_t workers : {0, 3}) {
    Prefetcher<int> batches(
        [](std::uint64_t number) -> int {
          if (number >= 2) throw std::runtime_error("batch " + std::to_string(number));
          return static_cast<int>(number);
        },
        workers, 4);
    EXPECT_EQ(batches.next(), 0);
    EXPECT_EQ(batches.next(), 1);
    try {
      batches.next();
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "batch 2");
    }
    EXPECT_THROW(batches.next(), std::logic_error) << "and not a wait for ever";
  }
}

TEST(Prefetcher, EndsWithBatchesInWork) {
  std::atomic<int> running = 0;
  {
    Prefetcher<int> batches(
        [&](std::uint64_t) {
          ++running;
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return --running;
        },
        4, 8);
    batches.next();
  }
  EXPECT_EQ(running, 0);
}

TEST(Prefetcher, RefusesNoDepth) {
  EXPECT_THROW(Prefetcher<int>([](std::uint64_t) { return 0; }, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace rueda::examples
