// SPDX-License-Identifier: Apache-2.0
// Peers that go, and peers that send what nobody can read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "core/engine/work.h"
#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

using testing::HasSubstr;

// How waiting for a ticket ends: "done", "gone" or the words of what went wrong.
std::string end_of(TcpLink& link, Ticket ticket) {
  std::string end = "it did not end in time";
  wait_until([&] {
    try {
      if (!link.done(ticket)) return false;
      end = "done";
    } catch (const PeerGone& gone) {
      end = "gone: " + std::to_string(gone.rank);
    } catch (const std::runtime_error& error) {
      end = error.what();
    }
    return true;
  });
  return end;
}

// Rank 0, and bare sockets for what rank 1 would send.
struct Bare {
  TcpLink link{0};
  std::vector<Descriptor> peer;

  explicit Bare(std::size_t rails = 1) {
    std::vector<ConnectedRail> here;
    for (std::size_t rail = 0; rail < rails; ++rail) {
      auto [a, b] = tcp_pair();
      here.push_back({std::move(a), {}});
      peer.push_back(std::move(b));
    }
    link.connect(1, std::move(here));
  }
  void send(ConstBytes bytes, std::size_t rail = 0) {
    EXPECT_EQ(::send(peer[rail].number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void send(const Frame& frame, std::size_t rail = 0) { send(to_bytes(frame), rail); }
};

Frame data_frame(std::uint32_t length, std::uint64_t total) {
  return {.kind = FrameKind::data, .tag = 1, .length = length, .sequence = 0, .total = total};
}

TEST(TcpLinkFailures, APeerThatGoesInTheMiddleIsGone) {
  for (const std::size_t rails : {1, 2}) {
    Bare bare(rails);
    auto memory = std::make_unique<Bytes>(50000);
    const Bytes large(100000);
    const Ticket send = bare.link.post_send(1, large, 2);
    const Ticket receive = bare.link.post_receive(1, *memory, 1);
    bare.send(data_frame(40000, 50000));
    bare.send(Bytes(1000));
    EXPECT_FALSE(bare.link.done(receive));
    bare.peer.back().close();
    EXPECT_EQ(end_of(bare.link, receive), "gone: 1");
    EXPECT_EQ(end_of(bare.link, send), "gone: 1");
    EXPECT_THROW(bare.link.post_send(1, large, 2), PeerGone);
    EXPECT_THROW(bare.link.post_receive(1, *memory, 2), PeerGone);
    bare.link.cancel(receive);
    bare.link.cancel(send);
    memory.reset();
    EXPECT_EQ(bare.link.traffic(1).size(), 0u);
  }
}

TEST(TcpLinkFailures, WhatCameBeforeIsStillDone) {
  Bare bare(2);
  Bytes memory(60000);
  const Ticket receive = bare.link.post_receive(1, memory, 1);
  const Ticket never = bare.link.post_receive(1, {}, 1);
  EXPECT_FALSE(bare.link.done(receive));
  bare.send(data_frame(60000, 60000));
  bare.send(Bytes(60000, std::byte{7}));
  bare.peer[1].close();
  ::shutdown(bare.peer[0].number(), SHUT_WR);
  EXPECT_EQ(end_of(bare.link, receive), "done");
  EXPECT_EQ(memory, Bytes(60000, std::byte{7}));
  EXPECT_EQ(end_of(bare.link, never), "gone: 1");
}

TEST(TcpLinkFailures, OthersGoOn) {
  LinkedPair pair;
  {
    auto [a, b] = tcp_pair();
    std::vector<ConnectedRail> rails;
    rails.push_back({std::move(a), {}});
    pair.zero.connect(2, std::move(rails));
  }
  EXPECT_EQ(end_of(pair.zero, pair.zero.post_receive(2, {}, 1)), "gone: 2");
  Bytes came(10);
  const Ticket receive = pair.one.post_receive(0, came, 1);
  EXPECT_EQ(end_of(pair.zero, pair.zero.post_send(1, came, 1)), "done");
  EXPECT_EQ(end_of(pair.one, receive), "done");
  EXPECT_THROW(pair.zero.post_receive(7, {}, 1), std::runtime_error);
}

TEST(TcpLinkFailures, MessagesThatAreTooLongFailOnBothSidesInWords) {
  for (const std::size_t size : {100, 100000}) {
    LinkedPair pair(2);
    const Bytes sent(size);
    Bytes came(50);
    const Ticket send = pair.zero.post_send(1, sent, 3);
    const Ticket receive = pair.one.post_receive(0, came, 3);
    const Ticket back = pair.zero.post_receive(1, came, 4);
    const std::string words =
        "rank 0 sends " + std::to_string(size) + " bytes to rank 1, which has room for 50 (tag 3)";
    EXPECT_TRUE(wait_until([&] {  // it has granted it
      pair.one.progress();
      if (pair.one.failure(0)) return true;  // a short message went ahead of its grant
      const std::vector<TcpPeer::Traffic> rails = pair.one.traffic(0);
      return rails[0].sent + rails[1].sent > 0;
    }));
    // A short message has left when its end is known; a long one has not.
    EXPECT_THAT(end_of(pair.zero, send), HasSubstr(size <= Frame::kMostEager ? "done" : words));
    EXPECT_THAT(end_of(pair.one, receive), HasSubstr(words));
    EXPECT_THAT(end_of(pair.zero, back), HasSubstr(words));
  }
}

TEST(TcpLinkFailures, GarbageEndsInWords) {
  Bare bare;
  const Ticket receive = bare.link.post_receive(1, {}, 1);
  bare.send(Bytes(100, std::byte{0x55}));
  EXPECT_THAT(end_of(bare.link, receive),
              HasSubstr("rank 0 cannot read what rank 1 sends: a frame begins with 55555555"));
}

TEST(TcpLinkFailures, ThePeersOwnWordsAreHeard) {
  Bare bare;
  const Ticket receive = bare.link.post_receive(1, {}, 1);
  bare.send(Frame{.kind = FrameKind::failure, .length = 4});
  bare.send(std::as_bytes(std::span("ouch", 4)));
  EXPECT_EQ(end_of(bare.link, receive), "ouch");
}

// Frames that are right but for some bits, or anything at all: never a hang, never a bad access.
TEST(TcpLinkFailures, RandomFramesEnd) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Bare bare(2);
    Bytes memory[3] = {Bytes(100), Bytes(70000), Bytes(0)};
    const Bytes large(30000);
    std::vector<Ticket> tickets;
    for (Tag tag = 0; tag < 3; ++tag) {
      tickets.push_back(bare.link.post_receive(1, memory[tag], tag));
      tickets.push_back(bare.link.post_send(1, large, tag));
    }
    for (int i = 0; i < 12; ++i) {
      Frame frame{.kind = static_cast<FrameKind>(1 + random() % 3), .tag = static_cast<Tag>(random() % 3)};
      frame.sequence = random() % 4;
      frame.total = frame.kind == FrameKind::eager ? random() % 4 : random() % 80000;
      frame.length = frame.kind == FrameKind::data ? random() % 40000 : 0;
      if (frame.kind == FrameKind::eager) frame.length = random() % 200;
      if (frame.kind == FrameKind::data) frame.offset = random() % 3 * 1000;
      FrameBytes bytes = to_bytes(frame);
      if (random() % 4 == 0) bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
      const std::size_t rail = random() % 2;
      bare.send(bytes, rail);
      if (random() % 8 != 0) bare.send(Bytes(frame.length), rail);
      try {
        static_cast<void>(bare.link.done(bare.link.post_receive(1, {}, 5)));
      } catch (const std::runtime_error&) {
        break;
      }
    }
    bare.peer.clear();
    for (const Ticket ticket : tickets) EXPECT_NE(end_of(bare.link, ticket), "it did not end in time");
  }
}

// Purpose: two links, and on each rail somebody who may change what passes. Owned by a test.
struct Spoiled {
  TcpLink links[2] = {TcpLink(0), TcpLink(1)};
  std::vector<SocketRelay> relays;

  explicit Spoiled(std::size_t rails, Cipher cipher = Cipher::none) {
    std::vector<ConnectedRail> ends[2];
    for (std::size_t rail = 0; rail < rails; ++rail) {
      auto [a, b] = tcp_pair();
      auto [c, d] = tcp_pair();
      relays.emplace_back(Descriptor(::dup(b.number())), Descriptor(::dup(c.number())));
      relays.emplace_back(std::move(c), std::move(b));
      const auto [keys_here, keys_there] = keys_for_tests(cipher);
      ends[0].push_back({std::move(a), keys_here});
      ends[1].push_back({std::move(d), keys_there});
    }
    links[0].connect(1, std::move(ends[0]));
    links[1].connect(0, std::move(ends[1]));
  }
};

// Whatever becomes of messages, it is an end that tickets can have, and no memory but theirs is touched.
TEST(TcpLinkFailures, FlippedBitsBreakNothingElse) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    Spoiled spoiled(1 + seed % 2);
    const auto flip = [&](Bytes& bytes) {
      if (random() % 20 == 0)
        bytes[random() % std::min<std::size_t>(bytes.size(), 100)] ^=
            static_cast<std::byte>(1u << random() % 8);
    };
    std::deque<Bytes> memory;
    std::vector<Ticket> open[2];
    const auto act = [&](Rank side) {
      TcpLink& link = spoiled.links[side];
      const std::size_t size = random() % 2 == 0 ? random() % 100 : random() % 50000;
      const Tag tag = seed % 3;
      memory.emplace_back(random() % 2 == 0 ? size : 50000);
      if (open[side].size() < 20)
        open[side].push_back(random() % 2 == 0
                                 ? link.post_send(1 - side, ConstBytes(memory.back()).first(size), tag)
                                 : link.post_receive(1 - side, memory.back(), tag));
      for (std::size_t i = open[side].size(); i-- > 0;) {
        if (link.done(open[side][i])) open[side].erase(open[side].begin() + static_cast<std::ptrdiff_t>(i));
      }
    };
    bool failed[2] = {};
    for (int turn = 0; turn < 400; ++turn) {
      for (Rank side = 0; side < 2; ++side) {
        try {
          if (!failed[side]) act(side);
        } catch (const PeerGone&) {
          failed[side] = true;
        } catch (const std::runtime_error&) {
          failed[side] = true;
        }
      }
      for (SocketRelay& relay : spoiled.relays) relay.step(flip);
    }
    spoiled.relays.clear();
    for (Rank side = 0; side < 2; ++side) {
      for (const Ticket ticket : open[side])
        EXPECT_NE(end_of(spoiled.links[side], ticket), "it did not end in time");
    }
  }
}

// One flipped bit of a large message, on its way over either rail.
TEST(TcpLinkFailures, ChangedBytesAreFoundWhereDataIsEncrypted) {
  for (const Cipher cipher : {Cipher::chacha20_poly1305, best_cipher()}) {
    Spoiled spoiled(2, cipher);
    const Bytes sent(1 << 20, std::byte{7});
    Bytes came(sent.size());
    const Ticket send = spoiled.links[0].post_send(1, sent, 3);
    const Ticket receive = spoiled.links[1].post_receive(0, came, 3);
    int pieces = 0;
    std::string words;
    EXPECT_TRUE(wait_until([&] {
      for (SocketRelay& relay : spoiled.relays)
        relay.step([&](Bytes& bytes) {
          if (bytes.size() == 4096 && ++pieces == 20) bytes[2000] ^= std::byte{1};
        });
      try {
        static_cast<void>(spoiled.links[0].over(send) || spoiled.links[0].done(send));
      } catch (const std::runtime_error&) {  // it has been told
      }
      try {
        EXPECT_FALSE(spoiled.links[1].done(receive));
      } catch (const std::runtime_error& error) {
        words = error.what();
      }
      return !words.empty();
    }));
    EXPECT_THAT(words, AllOf(HasSubstr("rank 1 received over"), HasSubstr("bytes that rank 0 has not sent")));
    EXPECT_EQ(std::ranges::count_if(
                  came, [](std::byte byte) { return byte != std::byte{0} && byte != std::byte{7}; }),
              0);
  }
}

}  // namespace
}  // namespace rueda
