// SPDX-License-Identifier: Apache-2.0
// Clocks that are apart, and messages that take their time.
#include "core/observe/clock_alignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "core/control/messages/control_message.h"

namespace rueda {
namespace {

// A tree of ranks, each with a clock of its own, and messages that take a random time.
struct ClockWorld {
  struct Node {
    ClockAlignment alignment;
    std::int64_t ahead_ns;  // of true time
  };
  struct Message {
    std::int64_t arrives;
    Rank from;
    Envelope envelope;
  };

  std::vector<Node> nodes;
  std::deque<Message> messages;
  std::mt19937 random{7};
  std::int64_t now = 1'000'000;
  int sent = 0;

  void add(std::optional<Rank> parent, std::vector<Rank> children, std::string machine, std::int64_t ahead) {
    nodes.push_back({ClockAlignment(parent, std::move(children), std::move(machine), {0, 500, 42}), ahead});
  }
  void take(Rank rank) {
    for (Envelope& envelope : nodes[static_cast<std::size_t>(rank)].alignment.take_outgoing()) {
      const std::int64_t takes = 3000 + static_cast<std::int64_t>(random() % 20000);
      messages.push_back({now + takes, rank, std::move(envelope)});
      ++sent;
    }
  }
  void run() {
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      nodes[rank].alignment.begin(now + nodes[rank].ahead_ns);
      take(static_cast<Rank>(rank));
    }
    while (!messages.empty()) {
      auto next = std::ranges::min_element(messages, {}, &Message::arrives);
      const Message message = std::move(*next);
      messages.erase(next);
      now = message.arrives;
      Node& node = nodes[static_cast<std::size_t>(message.envelope.peer)];
      EXPECT_TRUE(node.alignment.receive(message.from, message.envelope.bytes, now + node.ahead_ns));
      take(message.envelope.peer);
    }
  }
};

TEST(ClockAlignment, FindsHowFarClocksAreApart) {
  ClockWorld world;
  world.add(std::nullopt, {1, 2}, "a", 0);
  world.add(0, {3}, "b", 5'000'000);
  world.add(0, {}, "c", -7'000'000'000);
  world.add(1, {}, "d", 9'000'000);
  world.run();
  for (const ClockWorld::Node& node : world.nodes) {
    EXPECT_TRUE(node.alignment.finished());
    // Half a round trip of at most 46 us for each level.
    EXPECT_NEAR(static_cast<double>(node.alignment.clock().offset_ns), static_cast<double>(-node.ahead_ns),
                2 * 23'000.0);
    EXPECT_EQ(node.alignment.clock().origin_ns, 500);
    EXPECT_EQ(node.alignment.clock().epoch_us, 42);
  }
}

TEST(ClockAlignment, OneClockNeedsNoMeasuring) {
  ClockWorld world;
  world.add(std::nullopt, {1}, "a", 0);
  world.add(0, {2}, "b", 5'000'000);
  world.add(1, {}, "b", 5'000'000);
  world.run();
  EXPECT_TRUE(world.nodes[2].alignment.finished());
  EXPECT_EQ(world.nodes[2].alignment.clock(), world.nodes[1].alignment.clock());
  EXPECT_EQ(world.sent, (2 * ClockAlignment::kRounds + 1) + 3);
}

TEST(ClockAlignment, UnknownMachinesAreNotTakenForOne) {
  ClockWorld world;
  world.add(std::nullopt, {1}, "", 0);
  world.add(0, {}, "", 1'000'000'000);
  world.run();
  EXPECT_NEAR(static_cast<double>(world.nodes[1].alignment.clock().offset_ns), -1e9, 23'000.0);
}

TEST(ClockAlignment, ARankAloneHasTheClock) {
  ClockAlignment alone(std::nullopt, {}, "a", {0, 1, 2});
  alone.begin(5);
  EXPECT_TRUE(alone.finished());
  EXPECT_TRUE(alone.take_outgoing().empty());
}

TEST(ClockAlignment, LeavesOtherMessagesAlone) {
  ClockAlignment alignment(std::nullopt, {1}, "a", {});
  EXPECT_FALSE(alignment.receive(1, encode(Report{}), 5));
  EXPECT_FALSE(alignment.receive(1, {}, 5));
  ClockAlignment child(std::optional<Rank>(0), {}, "b", {});
  child.begin(5);
  EXPECT_FALSE(alignment.receive(2, child.take_outgoing().front().bytes, 5)) << "not a child";
  EXPECT_FALSE(alignment.finished());
}

TEST(ClockAlignment, EveryTruncationAndFlippedBitIsHarmless) {
  ClockAlignment parent(std::nullopt, {1}, "a", {0, 1, 2});
  ClockAlignment child(std::optional<Rank>(0), {}, "b", {});
  child.begin(100);
  const Bytes ping = child.take_outgoing().front().bytes;
  ASSERT_TRUE(parent.receive(1, ping, 200));
  const Bytes answer = parent.take_outgoing().front().bytes;
  for (const Bytes& bytes : {ping, answer}) {
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(ClockAlignment(parent).receive(1, ConstBytes(bytes).first(length), 300));
      EXPECT_FALSE(ClockAlignment(child).receive(0, ConstBytes(bytes).first(length), 300));
    }
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      Bytes flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      ClockAlignment(parent).receive(1, flipped, 300);
      ClockAlignment asked(child);
      asked.receive(0, flipped, 300);
      EXPECT_FALSE(asked.finished()) << "one answer is not enough";
    }
  }
}

}  // namespace
}  // namespace rueda
