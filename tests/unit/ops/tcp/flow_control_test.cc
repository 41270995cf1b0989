// SPDX-License-Identifier: Apache-2.0
// Which message meets which receive, whatever way and in whatever order frames come.
#include "ops/tcp/flow_control.h"
#include "tests/support/some_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace rueda {
namespace {

using testing::HasSubstr;

std::string words_of_failure(const std::function<void()>& run) {
  try {
    run();
  } catch (const LinkFailure& failure) {
    return failure.words;
  }
  return "nothing failed";
}

std::shared_ptr<Incoming> body_of(const std::byte* bytes, std::size_t size) {
  auto body = std::make_shared<Incoming>();
  body->own.assign(bytes, bytes + size);
  body->memory = body->own;
  body->size = size;
  return body;
}

// Purpose: two books, and frames on their way between them by several rails, each in order by itself.
class Exchange {
 public:
  explicit Exchange(std::size_t rails) : rails_{std::vector<Rail>(rails), std::vector<Rail>(rails)} {}

  FlowControl books[2] = {FlowControl(0, 1), FlowControl(1, 0)};

  std::shared_ptr<Outgoing> send(int side, const Bytes& bytes, Tag tag) {
    auto message = std::make_shared<Outgoing>();
    message->tag = tag;
    message->size = bytes.size();
    message->bytes = bytes;
    books[side].send(message);
    return message;
  }
  std::shared_ptr<Incoming> receive(int side, Bytes& bytes, Tag tag) {
    auto message = std::make_shared<Incoming>();
    message->tag = tag;
    message->size = bytes.size();
    message->memory = bytes;
    books[side].receive(message);
    return message;
  }

  // What a side has to send goes onto a rail; the first frame of a rail arrives. Whether there was any.
  bool load(int side, std::size_t rail) {
    if (books[side].has_control()) {
      put(side, rail, books[side].take_control().frames);
      return true;
    }
    const std::optional<FlowControl::Fragment> fragment = books[side].next_fragment(Frame::kMostData);
    if (!fragment) return false;
    const FrameBytes header = to_bytes(fragment->frame);
    Bytes bytes(header.begin(), header.end());
    const ConstBytes data = fragment->message->bytes.subspan(fragment->frame.offset, fragment->frame.length);
    bytes.insert(bytes.end(), data.begin(), data.end());
    put(side, rail, bytes);
    return true;
  }
  bool deliver(int side, std::size_t rail) {
    Rail& from = rails_[1 - side][rail];
    if (from.empty()) return false;
    const Bytes bytes = std::move(from.front());
    from.pop_front();
    FrameBytes header;
    std::memcpy(header.data(), bytes.data(), header.size());
    const Frame frame = frame_from(header);
    EXPECT_EQ(problem_in(frame), "");
    const std::byte* data = bytes.data() + header.size();
    if (frame.kind == FrameKind::data) {
      const std::shared_ptr<Incoming> message = books[side].message_of(frame);
      if (frame.length > 0) std::memcpy(message->memory.data() + frame.offset, data, frame.length);
      books[side].arrived(frame, *message);
    } else {
      books[side].take(frame, frame.kind == FrameKind::eager ? body_of(data, frame.length) : nullptr);
    }
    return true;
  }
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int side = 0; side < 2; ++side) moved |= load(side, 0) | deliver(side, 0);
    }
  }

 private:
  using Rail = std::deque<Bytes>;

  // One frame each.
  void put(int side, std::size_t rail, ConstBytes bytes) {
    while (!bytes.empty()) {
      FrameBytes header;
      std::memcpy(header.data(), bytes.data(), header.size());
      const std::size_t size = header.size() + frame_from(header).length;
      rails_[side][rail].emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      bytes = bytes.subspan(size);
    }
  }

  std::vector<Rail> rails_[2];  // from that side
};

TEST(FlowControl, ShortMessagesGoAheadAndLongOnesWait) {
  Exchange exchange(1);
  const Bytes small = some_bytes(100, 1), large = some_bytes(Frame::kMostEager + 1, 2);
  exchange.send(0, small, 5);
  EXPECT_TRUE(exchange.books[0].has_control());
  exchange.run();
  exchange.send(0, large, 5);
  EXPECT_FALSE(exchange.books[0].has_control());
  EXPECT_FALSE(exchange.books[0].next_fragment(Frame::kMostData));
  exchange.send(0, small, 5);  // behind the large one
  EXPECT_FALSE(exchange.books[0].has_control());
  exchange.send(0, small, 6);
  EXPECT_TRUE(exchange.books[0].has_control());

  Bytes first(200), second(large.size()), third(100);
  std::vector<std::shared_ptr<Incoming>> receives;
  for (Bytes* memory : {&first, &second, &third}) receives.push_back(exchange.receive(1, *memory, 5));
  EXPECT_TRUE(receives[0]->over);
  exchange.run();
  for (const auto& receive : receives) EXPECT_TRUE(receive->over);
  EXPECT_EQ(receives[0]->moved, 100u);
  EXPECT_EQ(second, large);
  EXPECT_EQ(third, small);
}

TEST(FlowControl, WhatGoesAheadIsLimitedOnBothSides) {
  Exchange exchange(1);
  const Bytes bytes = some_bytes(8000, 1);
  std::vector<std::shared_ptr<Outgoing>> sends;
  for (int i = 0; i < 200; ++i) sends.push_back(exchange.send(0, bytes, static_cast<Tag>(i)));
  const std::size_t ahead = static_cast<std::size_t>(std::ranges::count(sends, true, &Outgoing::begun));
  EXPECT_EQ(ahead, FlowControl::kMostAhead / (8000 + sizeof(Frame)));
  exchange.run();
  std::vector<Bytes> memory(200, Bytes(8000));
  for (int i = 0; i < 200; ++i) exchange.receive(1, memory[i], static_cast<Tag>(i));
  exchange.run();
  for (const Bytes& came : memory) EXPECT_EQ(came, bytes);

  FlowControl book(2, 3);
  EXPECT_THAT(
      words_of_failure([&] {
        for (std::uint64_t i = 0; i < 1000; ++i)
          book.take({.kind = FrameKind::eager, .length = 8000, .sequence = i}, body_of(bytes.data(), 8000));
      }),
      HasSubstr("rank 3 sent more than 1048576 bytes ahead of the receives they are for, which rank 2"));
}

TEST(FlowControl, EmptyMessagesAndShorterOnesCount) {
  Exchange exchange(1);
  const Bytes none, some = some_bytes(20000, 3);
  Bytes memory[3] = {Bytes(30000), Bytes(30000), Bytes(10)};
  std::vector<std::shared_ptr<Incoming>> receives;
  for (Bytes& each : memory) receives.push_back(exchange.receive(1, each, 1));
  exchange.run();
  for (const Bytes* bytes : {&none, &some, &none}) exchange.send(0, *bytes, 1);
  exchange.run();
  EXPECT_EQ(receives[0]->moved, 0u);
  EXPECT_EQ(receives[1]->moved, 20000u);
  EXPECT_TRUE(receives[2]->over);
}

TEST(FlowControl, LongerMessagesAreErrorsThatNameBoth) {
  for (const std::size_t size : {100, 20000}) {
    Exchange exchange(1);
    const Bytes bytes = some_bytes(size, 1);
    Bytes memory(50);
    exchange.send(0, bytes, 9);
    EXPECT_THAT(words_of_failure([&] {
                  exchange.receive(1, memory, 9);
                  exchange.run();
                }),
                HasSubstr("rank 0 sends " + std::to_string(size) +
                          " bytes to rank 1, which has room for 50 (tag 9)"));
  }
}

TEST(FlowControl, CancelledMessagesKeepTheOrder) {
  Exchange exchange(1);
  const Bytes second = some_bytes(20000, 2);
  Bytes memory[3] = {Bytes(20000), Bytes(20000), Bytes(20000)};
  {
    const Bytes gone = some_bytes(20000, 1);
    exchange.send(0, gone, 1)->cancel();
  }
  exchange.send(0, second, 1);
  exchange.send(0, second, 1);
  const auto first = exchange.receive(1, memory[0], 1);
  const auto unwanted = exchange.receive(1, memory[1], 1);
  const auto last = exchange.receive(1, memory[2], 1);
  unwanted->cancel();
  exchange.run();
  EXPECT_TRUE(first->over);
  EXPECT_EQ(first->moved, 0u);
  EXPECT_EQ(memory[2], second);
  EXPECT_TRUE(last->over);
}

TEST(FlowControl, RefusesWhatNoPeerSends) {
  const auto data = [](std::uint64_t sequence, std::uint32_t length, std::uint64_t total,
                       std::uint64_t offset) {
    return Frame{.kind = FrameKind::data,
                 .tag = 1,
                 .length = length,
                 .sequence = sequence,
                 .total = total,
                 .offset = offset};
  };
  EXPECT_NE(problem_in(data(0, 10, 5, 0)), "");
  EXPECT_NE(problem_in(data(0, 10, 100, ~std::uint64_t{0} - 5)), "");
  EXPECT_NE(problem_in(data(0, 0, 100, 0)), "");
  EXPECT_NE(problem_in({.magic = 0}), "");
  EXPECT_NE(problem_in({.kind = static_cast<FrameKind>(77)}), "");
  EXPECT_NE(problem_in({.kind = FrameKind::grant, .length = 1}), "");
  EXPECT_NE(problem_in({.kind = FrameKind::eager, .length = Frame::kMostEager + 1}), "");
  EXPECT_NE(problem_in({.kind = FrameKind::failure, .length = Frame::kMostText + 1}), "");

  Exchange exchange(1);
  Bytes memory(100);
  exchange.receive(0, memory, 1);
  FlowControl& book = exchange.books[0];
  EXPECT_THAT(words_of_failure([&] { book.message_of(data(1, 10, 100, 0)); }), HasSubstr("does not wait"));
  EXPECT_THAT(words_of_failure([&] { book.message_of(data(0, 10, 101, 0)); }), HasSubstr("has room for 100"));
  book.message_of(data(0, 60, 100, 0));
  EXPECT_THAT(words_of_failure([&] { book.message_of(data(0, 60, 100, 40)); }), HasSubstr("more fragments"));
  EXPECT_THAT(words_of_failure([&] { book.take({.sequence = 1 << 20}, nullptr); }), HasSubstr("0 was next"));
  book.take({.sequence = 1}, nullptr);
  EXPECT_THAT(words_of_failure([&] { book.take({.sequence = 1}, nullptr); }), HasSubstr("two frames"));
  EXPECT_THAT(
      words_of_failure([&] { book.take({.kind = FrameKind::eager, .total = 7}, body_of(nullptr, 0)); }),
      HasSubstr("has handled 7 frames"));
}

// Those that have their receives, whose grants have gone out, count for nobody.
TEST(FlowControl, ARailThatIsOutHoldsUpWhatComesOverOthersHoweverMuchItIs) {
  Exchange exchange(2);
  const Bytes sent = some_bytes(Frame::kMostEager, 1);
  Bytes first(4);
  exchange.send(1, some_bytes(4, 2), 5);
  exchange.load(1, 0);
  std::deque<Bytes> memory;
  std::vector<std::shared_ptr<Incoming>> receives;
  for (int i = 0; i < 200; ++i) {
    exchange.send(1, sent, 6);
    receives.push_back(exchange.receive(0, memory.emplace_back(sent.size()), 6));
    ASSERT_TRUE(exchange.load(1, 1) && exchange.load(0, 1));
    ASSERT_TRUE(exchange.deliver(0, 1) && exchange.deliver(1, 1));
    EXPECT_FALSE(receives.back()->over);
  }
  exchange.deliver(0, 0);
  for (const auto& receive : receives) EXPECT_TRUE(receive->over);
  EXPECT_EQ(memory.back(), sent);
  const auto last = exchange.receive(0, first, 5);
  EXPECT_TRUE(last->over);
}

// Purpose: messages of several tags both ways, posted and moved in random order.
class RandomTalk {
 public:
  RandomTalk(unsigned seed, std::size_t rails) : random_(seed), rails_(rails), exchange_(rails) {
    for (auto& side : lanes_) {
      for (Lane& lane : side) {
        for (int i = 0; i < 20; ++i) {
          const std::size_t size = random_() % 4 == 0 ? random_() % 300000 : random_() % 9000;
          lane.messages.push_back({some_bytes(size, random_()), Bytes(size + random_() % 3), nullptr});
        }
      }
    }
  }

  void act() {
    const int side = static_cast<int>(random_() % 2);
    const auto tag = static_cast<Tag>(random_() % kTags);
    const std::size_t rail = random_() % rails_;
    Lane& lane = lanes_[side][tag];
    switch (random_() % 4) {
      case 0:
        if (lane.sent < lane.messages.size()) exchange_.send(1 - side, lane.messages[lane.sent++].sent, tag);
        break;
      case 1:
        if (lane.received < lane.messages.size()) {
          Message& message = lane.messages[lane.received++];
          message.receive = exchange_.receive(side, message.came, tag);
        }
        break;
      case 2: exchange_.load(side, rail); break;
      case 3: exchange_.deliver(side, rail); break;
    }
  }
  bool over() {
    return all_of_them([](const Message& message) { return message.receive && message.receive->over; });
  }
  bool right() {
    return all_of_them([](Message& message) {
      message.came.resize(message.receive->moved);
      return message.came == message.sent;
    });
  }

 private:
  static constexpr Tag kTags = 3;

  struct Message {
    Bytes sent, came;
    std::shared_ptr<Incoming> receive;
  };
  struct Lane {
    std::deque<Message> messages;
    std::size_t sent = 0;
    std::size_t received = 0;
  };

  bool all_of_them(const std::function<bool(Message&)>& holds) {
    for (auto& side : lanes_) {
      for (Lane& lane : side) {
        if (!std::ranges::all_of(lane.messages, holds)) return false;
      }
    }
    return true;
  }

  std::mt19937 random_;
  std::size_t rails_;
  Lane lanes_[2][kTags];  // by the side that receives
  Exchange exchange_;
};

TEST(FlowControl, MatchesInTheOrderOfPostingWhateverHappens) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    RandomTalk talk(seed, 1 + seed % 3);
    for (int i = 0; i < 200000 && (i % 100 != 0 || !talk.over()); ++i) talk.act();
    ASSERT_TRUE(talk.over()) << "seed " << seed;
    ASSERT_TRUE(talk.right()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rueda
