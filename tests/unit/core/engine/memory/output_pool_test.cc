// SPDX-License-Identifier: Apache-2.0
#include "core/engine/memory/output_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace rueda {
namespace {

constexpr std::size_t kOutput = std::size_t{1} << 20;

TEST(OutputPool, GivesWhatWasLetGoOfAgain) {
  OutputPool memory;
  const std::byte* const first = memory.allocate(3 * kOutput).get();
  EXPECT_EQ(memory.bytes_kept(), 3 * kOutput);
  const std::shared_ptr<std::byte> again = memory.allocate(3 * kOutput - 100);  // of the same class
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(memory.bytes_kept(), 0u);
  const std::shared_ptr<std::byte> another = memory.allocate(3 * kOutput);
  EXPECT_NE(another.get(), first);
}

TEST(OutputPool, HasRoomForAllThatWasAskedFor) {
  OutputPool memory;
  for (std::size_t bytes = 1; bytes < 10 * kOutput; bytes = bytes * 3 + 1) {
    const std::shared_ptr<std::byte> block = memory.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % HostBuffer::kAlignment, 0u);
    std::memset(block.get(), 1, bytes);  // AddressSanitizer looks on
    std::memset(memory.allocate(bytes - 1).get(), 1, bytes - 1);
  }
  EXPECT_NE(memory.allocate(0), nullptr);
}

TEST(OutputPool, LargerOnesAreNotGivenForSmallOnes) {
  OutputPool memory;
  memory.allocate(8 * kOutput).reset();
  const std::shared_ptr<std::byte> small = memory.allocate(kOutput);
  EXPECT_EQ(memory.bytes_kept(), 8 * kOutput);
}

TEST(OutputPool, KeepsNothingShort) {
  OutputPool memory;
  memory.allocate(OutputPool::kLeast - 1).reset();
  EXPECT_EQ(memory.bytes_kept(), 0u);
}

TEST(OutputPool, DropsWhatIsNotUsedAgain) {
  OutputPool memory;
  memory.allocate(kOutput).reset();
  for (int i = 0; i <= OutputPool::kMostUnused; ++i) memory.allocate(2 * kOutput).reset();
  EXPECT_EQ(memory.bytes_kept(), 2 * kOutput);
}

TEST(OutputPool, KeepsNoMoreThanItMay) {
  OutputPool memory(5 * kOutput);
  std::shared_ptr<std::byte> blocks[] = {memory.allocate(kOutput), memory.allocate(2 * kOutput),
                                         memory.allocate(3 * kOutput)};
  for (std::shared_ptr<std::byte>& block : blocks) block.reset();
  EXPECT_EQ(memory.bytes_kept(), 5 * kOutput);  // the oldest has gone
  memory.allocate(6 * kOutput).reset();
  EXPECT_EQ(memory.bytes_kept(), 5 * kOutput);
  std::vector<std::shared_ptr<std::byte>> many;
  for (std::size_t i = 0; i < 2 * OutputPool::kMostBlocks; ++i)
    many.push_back(memory.allocate(OutputPool::kLeast));
  many.clear();
  EXPECT_LE(memory.bytes_kept(), OutputPool::kMostBlocks * OutputPool::kLeast);
}

TEST(OutputPool, MayBeLetGoOfByAnyThreadAndAfterIt) {
  std::shared_ptr<std::byte> last;
  {
    OutputPool memory;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&memory] {
        for (std::size_t round = 1; round < 200; ++round) {
          const std::shared_ptr<std::byte> block = memory.allocate(OutputPool::kLeast * (1 + round % 3));
          std::memset(block.get(), 1, OutputPool::kLeast);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    last = memory.allocate(kOutput);
  }
  std::memset(last.get(), 2, kOutput);
}

}  // namespace
}  // namespace rueda
