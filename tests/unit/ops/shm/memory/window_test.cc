// SPDX-License-Identifier: Apache-2.0
// Tensors in a window: where they lie, when their memory goes, and what happens where there is none.
#include "ops/shm/memory/window.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "core/base/error.h"
#include "tests/support/in_child.h"

namespace rueda {
namespace {

constexpr std::int64_t kLimit = 1 << 20;

// What the window takes of the machine's memory.
std::int64_t bytes_there(const Window& window) {
  struct stat status {};
  EXPECT_EQ(fstat(window.file()->handle().file, &status), 0);
  return std::int64_t{512} * status.st_blocks;
}

TEST(Window, MemoryIsThereAsLongAsItsPointer) {
  const std::shared_ptr<Window> window = Window::make(0, kLimit);
  EXPECT_EQ(bytes_there(*window), 0);
  std::shared_ptr<std::byte> first = window->allocate(10'000), second = window->allocate(1);
  EXPECT_EQ(bytes_there(*window), 16'384);
  EXPECT_EQ(window->offset_of(first.get(), 10'000), 0u);
  EXPECT_EQ(window->offset_of(second.get() + 7, 1), 12'295u);
  std::memset(first.get(), 1, 10'000);
  first.reset();
  EXPECT_EQ(bytes_there(*window), 4096);
  first = window->allocate(kLimit - 4096 - 12'288);  // round to what the first had needs another turn
  ASSERT_NE(first, nullptr);
  const std::shared_ptr<std::byte> again = window->allocate(12'288);
  EXPECT_EQ(window->offset_of(again.get(), 12'288), 0u);
  EXPECT_TRUE(std::all_of(again.get(), again.get() + 12'288, [](std::byte b) { return b == std::byte{}; }));
}

TEST(Window, WhatLiesElsewhereHasNoOffset) {
  const std::shared_ptr<Window> window = Window::make(0, kLimit), other = Window::make(1, kLimit);
  const std::shared_ptr<std::byte> memory = other->allocate(64);
  EXPECT_FALSE(window->offset_of(memory.get(), 64));
  EXPECT_FALSE(window->offset_of(&window, 8));
  EXPECT_FALSE(window->offset_of(nullptr, 0));
  EXPECT_FALSE(window->offset_of(window->file()->data() + kLimit - 8, 16));
  EXPECT_FALSE(window->offset_of(window->file()->data() - 8, 16));
}

TEST(Window, AnyOrderOfFreeingLeavesOneRange) {
  const std::shared_ptr<Window> window = Window::make(0, kLimit);
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<std::byte>> blocks;
    std::vector<std::pair<std::uint64_t, std::size_t>> ranges;
    while (blocks.size() < 40) {
      const std::size_t bytes = 1 + random() % 30'000;
      std::shared_ptr<std::byte> block = window->allocate(bytes);
      if (!block) break;
      ranges.emplace_back(*window->offset_of(block.get(), bytes), bytes);
      blocks.push_back(std::move(block));
    }
    std::ranges::sort(ranges);
    for (std::size_t i = 1; i < ranges.size(); ++i)
      EXPECT_LE(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
    std::ranges::shuffle(blocks, random);
    blocks.clear();
    EXPECT_EQ(bytes_there(*window), 0);
    EXPECT_NE(window->allocate(kLimit), nullptr);
  }
}

TEST(Window, IsFullOrTooSmall) {
  const std::shared_ptr<Window> window = Window::make(0, kLimit);
  EXPECT_EQ(window->allocate(kLimit + 1), nullptr);
  EXPECT_EQ(window->allocate(~std::size_t{0}), nullptr);
  EXPECT_NE(window->allocate(0), nullptr);
  EXPECT_EQ(Window::make(0, 0), nullptr);
}

TEST(Window, NoSizeIsTooLargeToBeRefused) {
  const std::shared_ptr<Window> window = Window::make(0, kLimit);
  const std::shared_ptr<std::byte> first = window->allocate(100'000);
  for (const std::size_t least : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 4095, SIZE_MAX - 200'000})
    EXPECT_EQ(window->allocate(least), nullptr) << least;
  const std::shared_ptr<std::byte> next = window->allocate(100'000);
  EXPECT_GE(next.get(), first.get() + 100'000);
}

TEST(Window, MoreThanTheMachineHasIsAnErrorInWords) {
  const std::shared_ptr<Window> window = Window::make(0, std::int64_t{1} << 60);
  try {
    window->allocate(window->file()->size());
    FAIL() << "all of the machine's memory";
  } catch (const BackendError& error) {
    EXPECT_NE(std::string(error.what()).find("Too little memory for tensors of"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("RUEDA_SHM=0"), std::string::npos);
  }
  EXPECT_EQ(bytes_there(*window), 0);
}

TEST(Window, WhatFillsAHugePageBeginsWithOne) {
  const std::shared_ptr<Window> window = Window::make(0, 16 << 20);
  auto offset_in_page = [](const std::shared_ptr<std::byte>& memory) {
    return reinterpret_cast<std::uintptr_t>(memory.get()) % SharedFile::kHugePage;
  };
  const std::shared_ptr<std::byte> small = window->allocate(5000), large = window->allocate(3 << 20),
                                   other = window->allocate(5000), second = window->allocate(2 << 20);
  EXPECT_EQ(offset_in_page(small), 0);
  EXPECT_EQ(offset_in_page(large), 0);
  EXPECT_EQ(offset_in_page(other), (3 << 20) % SharedFile::kHugePage);
  EXPECT_EQ(offset_in_page(second), 0);
  EXPECT_TRUE(
      std::all_of(large.get(), large.get() + (3 << 20), [](std::byte each) { return each == std::byte{0}; }));
}

TEST(Window, WhereNoHugePageIsLeftAnyOtherMemoryWillDo) {
  const std::shared_ptr<Window> window = Window::make(0, 3 << 20);
  const std::shared_ptr<std::byte> small = window->allocate(5000), large = window->allocate((2 << 20) + 5000);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(window->allocate(2 << 20), nullptr);
}

TEST(Window, ALimitOfFileSizesIsNoSignal) {
  EXPECT_TRUE(in_child([] {
    rlimit some{1 << 16, 1 << 16};
    setrlimit(RLIMIT_FSIZE, &some);
    return Window::make(0, kLimit) == nullptr && Window::make(0, 1 << 16) != nullptr;
  }));
}

TEST(Window, OutlivesItsMakersPointerAndAForkedChildFreesNothing) {
  std::shared_ptr<Window> window = Window::make(0, kLimit);
  std::shared_ptr<std::byte> memory = window->allocate(64);
  window.reset();
  memory.get()[5] = std::byte{9};
  EXPECT_TRUE(in_child([&] {
    memory.reset();
    return true;
  }));
  EXPECT_EQ(memory.get()[5], std::byte{9});
}

TEST(Window, WhatAForkedChildWritesIsItsOwn) {
  const std::shared_ptr<Window> window = Window::make(0, kLimit);
  const std::shared_ptr<std::byte> memory = window->allocate(10'000);
  const SymmetricMemory::Block block = window->share(10'000);
  memory.get()[5] = block.memory.get()[5] = std::byte{9};
  EXPECT_TRUE(in_child([&] {
    const bool there = memory.get()[5] == std::byte{9} && block.memory.get()[5] == std::byte{9};
    std::memset(memory.get(), 1, 10'000);
    std::memset(block.memory.get(), 1, 10'000);
    return there && memory.get()[5] == std::byte{1};
  }));
  EXPECT_EQ(memory.get()[5], std::byte{9});
  EXPECT_EQ(block.memory.get()[9'999], std::byte{0});
}

TEST(Window, ABlockIsSharedWithWhoHasItsHandle) {
  const std::shared_ptr<Window> window = Window::make(0, kLimit);
  SymmetricMemory::Block block = window->share(100'000);
  EXPECT_EQ(window->open("not a handle"), nullptr);
  EXPECT_TRUE(in_child([&] {  // one process has one mapping: so it is dropped first
    const std::string handle = block.handle;
    const std::shared_ptr<std::byte> mapped = window->open(handle);
    mapped.get()[99'999] = std::byte{3};
    return true;
  }));
  EXPECT_EQ(block.memory.get()[99'999], std::byte{3});
  const std::shared_ptr<std::byte> same = window->open(block.handle);
  EXPECT_EQ(same.get(), block.memory.get());
  block.memory.reset();
  EXPECT_EQ(same.get()[99'999], std::byte{3});
}

}  // namespace
}  // namespace rueda
