// SPDX-License-Identifier: Apache-2.0
// Messages through a ring in shared memory: all lengths, in order; and a ring that somebody has scribbled on.
#include "ops/shm/memory/byte_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <random>
#include <thread>

namespace rueda {
namespace {

Bytes message(std::size_t length, std::size_t seed) {
  Bytes bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>((i * 7 + seed) % 251);
  return bytes;
}

struct Ends {
  std::unique_ptr<ByteRing> ring = std::make_unique<ByteRing>();
  EventCount writers, readers;
  ByteRingWriter writer{*ring, readers};
  ByteRingReader reader{*ring, writers};
};

TEST(ByteRing, KeepsOrderAndContentOfAllLengths) {
  Ends ends;
  std::mt19937 random(1);
  std::deque<Bytes> expected;
  std::size_t sent = 0;
  while (sent < 2000 || !expected.empty()) {
    if (sent < 2000 && random() % 2 == 0) {
      const std::size_t longest = random() % 20 == 0 ? 3 * ByteRing::kBytes : 3000;
      expected.push_back(message(random() % longest, sent++));
      ends.writer.send(expected.back());
    }
    ASSERT_TRUE(ends.writer.flush().ok());
    if (random() % 2 == 0) continue;
    if (std::optional<Bytes> received = ends.reader.receive()) {
      ASSERT_FALSE(expected.empty());
      ASSERT_EQ(*received, expected.front());
      expected.pop_front();
    }
    ASSERT_TRUE(ends.reader.failure().ok());
  }
  EXPECT_TRUE(ends.writer.empty());
}

// Each end sleeps when it can do nothing, and every sleep ends by a ring, not by its time limit.
TEST(ByteRing, TwoThreadsSleepAndWakeEachOther) {
  constexpr std::size_t kMessages = 1000, kSizes = 10;
  constexpr auto kLimit = std::chrono::seconds(20);
  std::vector<Bytes> messages;
  for (std::size_t i = 0; i < kSizes; ++i) messages.push_back(message(i * i * 2500, i));
  Ends ends;
  std::atomic<int> missed{0};
  auto rest = [&](EventCount& doorbell, auto&& moved) {
    const std::uint32_t heard = doorbell.listen();
    if (moved()) return doorbell.stay_awake();
    const auto begin = std::chrono::steady_clock::now();
    doorbell.sleep(heard, kLimit);
    if (std::chrono::steady_clock::now() - begin >= kLimit) ++missed;
  };
  std::thread other([&] {
    for (std::size_t i = 0; i < kMessages && missed == 0;) {
      rest(ends.readers, [&] {
        const std::optional<Bytes> received = ends.reader.receive();
        if (received) {
          EXPECT_EQ(*received, messages[i++ % kSizes]);
        }
        return received.has_value();
      });
    }
  });
  for (std::size_t i = 0; i < kMessages && missed == 0; ++i) {
    ends.writer.send(messages[i % kSizes]);
    do {
      rest(ends.writers, [&] {
        EXPECT_TRUE(ends.writer.flush().ok());
        return ends.writer.empty();
      });
    } while (!ends.writer.empty() && missed == 0);
  }
  other.join();
  EXPECT_EQ(missed, 0);
}

TEST(ByteRing, ACellHasOneLineOfTheCaches) {
  EXPECT_EQ(sizeof(ByteRing::Cell), 64U);
  EXPECT_EQ(offsetof(ByteRing, cells) % 64, 0U);
}

TEST(ByteRing, AMessageThatFitsIntoACellTakesOne) {
  for (std::size_t length : {0, 1, 55, 56, 57, 112, 113}) {
    Ends ends;
    ends.writer.send(message(length, 3));
    ASSERT_TRUE(ends.writer.flush().ok());
    EXPECT_EQ(ends.reader.receive(), message(length, 3)) << length;
    EXPECT_EQ(ends.ring->read.load(), length <= 56 ? 1U : length <= 112 ? 2U : 3U) << length;
  }
}

TEST(ByteRing, ACountThatCannotBeIsAnError) {
  for (std::uint64_t wrong : {ByteRing::kCells + 1, std::size_t{1} << 40, ~std::size_t{0}}) {
    Ends full;
    full.writer.send(message(2 * ByteRing::kBytes, 1));
    ASSERT_TRUE(full.writer.flush().ok());
    full.ring->read.store(wrong);
    EXPECT_EQ(full.writer.flush().code, StatusCode::backend_error) << wrong;
  }
}

// The cell of the lap before is none of them.
TEST(ByteRing, AHeadThatCannotBeIsAnError) {
  for (std::size_t before : {std::size_t{0}, std::size_t{7}, ByteRing::kCells + 7}) {
    const std::uint64_t empty_piece = (before + 1) << 16 | 0xff00;
    for (std::uint64_t wrong :
         {std::uint64_t{1}, std::uint64_t{1} << 16, std::uint64_t{3} << 40, ~std::uint64_t{0}, empty_piece}) {
      Ends ends;
      for (std::size_t i = 0; i < before; ++i) {
        ends.writer.send(message(5, i));
        ASSERT_TRUE(ends.writer.flush().ok());
        ASSERT_EQ(ends.reader.receive(), message(5, i));
      }
      EXPECT_FALSE(ends.reader.receive());
      ASSERT_TRUE(ends.reader.failure().ok());
      EXPECT_TRUE(ends.reader.nothing_has_come());
      ends.ring->cells[before % ByteRing::kCells].head.store(wrong);
      EXPECT_FALSE(ends.reader.receive());
      EXPECT_EQ(ends.reader.failure().code, StatusCode::backend_error) << wrong;
      EXPECT_FALSE(ends.reader.receive());
    }
  }
}

TEST(ByteRing, EveryFlippedBitOfAHeadIsAnError) {
  for (int bit = 0; bit < 64; ++bit) {
    Ends ends;
    ends.writer.send(message(100, 1));
    ASSERT_TRUE(ends.writer.flush().ok());
    ends.ring->cells[0].head.store(ends.ring->cells[0].head.load() ^ std::uint64_t{1} << bit);
    EXPECT_FALSE(ends.reader.receive()) << bit;
    EXPECT_EQ(ends.reader.failure().code, StatusCode::backend_error) << bit;
  }
}

// Whatever stands in the ring, nothing is read outside it and no wrong head allocates memory.
TEST(ByteRing, GarbageIsReadWithinBounds) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    Ends ends;
    const bool is_believable = round % 2 == 0;  // cells of messages that never come whole
    for (std::size_t i = 0; i < ByteRing::kCells; ++i) {
      constexpr std::uint64_t kLow = ByteRing::kBytesOfCell;
      ends.ring->cells[i].head.store(is_believable ? (i + 1) << 16 | (kLow ^ 0xff) << 8 | kLow : random());
    }
    for (int step = 0; step < 5; ++step) EXPECT_FALSE(ends.reader.receive());
    EXPECT_LE(ends.ring->read.load(), ByteRing::kCells);
    EXPECT_EQ(ends.reader.failure().ok(), is_believable);
  }
}

}  // namespace
}  // namespace rueda
