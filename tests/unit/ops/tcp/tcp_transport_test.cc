// SPDX-License-Identifier: Apache-2.0
// Control messages over the connections of data: their order, and how neighbours end.
#include "ops/tcp/tcp_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

using testing::HasSubstr;

// What there is before TCP: counts what is sent, and tells of losses.
struct Start {
  int sent = 0;
  std::vector<Rank> lost;
};

class StartTransport final : public Transport {
 public:
  explicit StartTransport(Start& start) : start_(start) {}
  void send(Rank, Bytes) override { ++start_.sent; }
  std::optional<Envelope> receive() override { return Envelope{7, {}}; }
  std::vector<Rank> lost(Time) override { return std::exchange(start_.lost, {}); }
  bool rings_doorbell() const override { return true; }

 private:
  Start& start_;
};

// Ranks 0 and 1, neighbours of each other.
struct Pair {
  std::shared_ptr<TcpLink> links[2] = {std::make_shared<TcpLink>(0), std::make_shared<TcpLink>(1)};
  Start starts[2];
  std::unique_ptr<TcpTransport> ranks[2];
  std::vector<Descriptor> copies;  // of the sockets of rank 1

  explicit Pair(std::size_t rails = 1) {
    std::vector<ConnectedRail> here, there;
    for (std::size_t rail = 0; rail < rails; ++rail) {
      auto [a, b] = tcp_pair();
      copies.emplace_back(::dup(b.number()));
      const auto [keys_here, keys_there] = keys_for_tests(Cipher::none);
      here.push_back({std::move(a), keys_here});
      there.push_back({std::move(b), keys_there});
    }
    links[0]->connect(1, std::move(here));
    links[1]->connect(0, std::move(there));
    for (const Rank rank : {0, 1})
      ranks[rank] =
          std::make_unique<TcpTransport>(rank, std::make_unique<StartTransport>(starts[rank]), links[rank]);
  }
  void connect() {
    for (const Rank rank : {0, 1}) ranks[rank]->connect({1 - rank});
  }
  // The connections of rank 1 end, as those of a process that is killed.
  void cut() {
    for (const Descriptor& copy : copies) ::shutdown(copy.number(), SHUT_RDWR);
  }
  ~Pair() {
    cut();  // on one thread neither could wait for the other
  }
};

Bytes message(int number) {
  std::mt19937 random(static_cast<unsigned>(number));
  Bytes bytes(number % 5 == 0 ? random() % 100'000 : random() % 100);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(TcpTransport, GoesTheOldWayUntilItIsConnected) {
  Pair pair;
  EXPECT_TRUE(pair.ranks[0]->rings_doorbell());
  pair.ranks[0]->send(1, message(1));
  EXPECT_EQ(pair.starts[0].sent, 1);
  EXPECT_EQ(pair.ranks[0]->receive()->peer, 7);
  pair.connect();
  EXPECT_FALSE(pair.ranks[0]->rings_doorbell());
  pair.ranks[0]->send(1, message(1));
  EXPECT_EQ(pair.starts[0].sent, 1);
  EXPECT_FALSE(pair.ranks[0]->receive());
}

TEST(TcpTransport, MessagesOfAnyLengthStayInOrder) {
  for (const std::size_t rails : {1, 2}) {
    Pair pair(rails);
    pair.connect();
    std::mt19937 random(1);
    constexpr int kMessages = 300;
    int sent[2] = {0, 0}, got[2] = {0, 0};
    EXPECT_TRUE(wait_until([&] {
      const Rank rank = static_cast<Rank>(random() % 2);
      if (sent[rank] < kMessages && random() % 2 == 0)
        pair.ranks[rank]->send(1 - rank, message(sent[rank]++));
      while (std::optional<Envelope> envelope = pair.ranks[rank]->receive()) {
        EXPECT_EQ(envelope->peer, 1 - rank);
        EXPECT_EQ(envelope->bytes, message(got[rank]++));
      }
      return testing::Test::HasFailure() || (got[0] == kMessages && got[1] == kMessages);
    }));
    for (const Rank rank : {0, 1}) EXPECT_TRUE(pair.ranks[rank]->lost(clock_now()).empty());
  }
}

// No call waits for a neighbour that reads nothing: what is sent waits here.
TEST(TcpTransport, SendingBlocksNobody) {
  Pair pair;
  pair.connect();
  for (int i = 0; i < 100; ++i) pair.ranks[0]->send(1, Bytes(100'000, static_cast<std::byte>(i)));
  EXPECT_FALSE(pair.ranks[0]->receive());
  for (int i = 0; i < 100; ++i) {
    std::optional<Envelope> envelope;
    EXPECT_TRUE(wait_until([&] {
      EXPECT_FALSE(pair.ranks[0]->receive());
      return (envelope = pair.ranks[1]->receive()).has_value();
    }));
    EXPECT_EQ(envelope->bytes, Bytes(100'000, static_cast<std::byte>(i)));
  }
}

// The last words of a rank that ends arrive, whatever it has not read; then it is not lost.
TEST(TcpTransport, WhoSaysFarewellIsNotLost) {
  std::vector<Bytes> messages;  // made once: the other rank waits 2 s for their reader
  for (int i = 0; i < 50; ++i) messages.push_back(message(i));
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    pair.copies.clear();
    pair.ranks[0]->connect({1});
    for (int i = 0; i < 50; ++i) pair.ranks[0]->send(1, messages[static_cast<std::size_t>(i)]);  // never read
    std::atomic<bool> ended{false};
    std::thread ends([&] {
      pair.ranks[1]->connect({0});
      for (int i = 0; i < 50; ++i) pair.ranks[1]->send(0, messages[static_cast<std::size_t>(i)]);
      pair.ranks[1].reset();
      pair.links[1].reset();
      ended = true;
    });
    int got = 0;
    EXPECT_TRUE(wait_until([&] {
      while (std::optional<Envelope> envelope = pair.ranks[0]->receive())
        EXPECT_EQ(envelope->bytes, messages.at(static_cast<std::size_t>(got++)));
      EXPECT_TRUE(pair.ranks[0]->lost(clock_now()).empty());
      return got == 50;
    }));
    pair.ranks[0].reset();
    ends.join();
    EXPECT_TRUE(ended);
  }
}

TEST(TcpTransport, WhoEndsWithoutFarewellIsLostOnce) {
  Pair pair;
  pair.connect();
  pair.ranks[1]->send(0, message(1));
  pair.cut();
  EXPECT_TRUE(wait_until([&] { return pair.ranks[0]->receive().has_value(); }));
  std::vector<Rank> lost;
  EXPECT_TRUE(wait_until([&] {
    EXPECT_FALSE(pair.ranks[0]->receive());
    lost = pair.ranks[0]->lost(clock_now());
    return !lost.empty();
  }));
  EXPECT_EQ(lost, std::vector<Rank>{1});
  EXPECT_TRUE(pair.ranks[0]->lost(clock_now()).empty());
  pair.ranks[0]->send(1, message(1));  // is dropped
  EXPECT_FALSE(pair.ranks[0]->receive());
  pair.starts[0].lost = {3};
  EXPECT_EQ(pair.ranks[0]->lost(clock_now()), std::vector<Rank>{3});
}

TEST(TcpTransport, ItsEndIsNotHeldUpForLong) {
  Pair pair;
  pair.connect();
  const Time begin = clock_now();
  pair.ranks[0].reset();  // rank 1 does nothing
  EXPECT_LT(clock_now() - begin, std::chrono::seconds(10));
}

// What rank 0 says of a piece that rank 1 sends.
std::string words_about(Pair& pair, const Bytes& piece) {
  pair.ranks[0]->connect({1});
  const Ticket ticket = pair.links[1]->post_send(0, piece, TcpTransport::kControlTag);
  EXPECT_TRUE(wait_until([&] { return pair.links[1]->done(ticket).has_value(); }));
  std::string words;
  EXPECT_TRUE(wait_until([&] {
    try {
      EXPECT_FALSE(pair.ranks[0]->receive());
    } catch (const std::runtime_error& error) {
      words = error.what();
    }
    return !words.empty();
  }));
  pair.ranks[1]->connect({0});
  return words;
}

Bytes sealed(const RailKeys& keys, Bytes text) {
  text.resize(text.size() + RecordCipher::kTagBytes);
  RecordCipher(keys.cipher, keys.control.send).seal({}, text);
  return text;
}

TEST(TcpTransport, WhatNobodyCanReadIsToldInWords) {
  for (const Bytes& piece : {Bytes{}, Bytes{std::byte{3}}, Bytes(100, std::byte{255})}) {
    Pair pair;
    EXPECT_THAT(words_about(pair, sealed(pair.links[1]->keys(0), piece)),
                AllOf(HasSubstr("rank 0 cannot read what rank 1 sends"), HasSubstr("same version")));
  }
}

// A whole message of somebody on the way, who has no keys; and one of rank 0, sent back to it.
TEST(TcpTransport, WhatTheNeighbourHasNotSentIsRefused) {
  Pair forged, mirrored, strange;
  const Bytes message{std::byte{5}, std::byte{1}};
  EXPECT_THAT(words_about(forged, message),
              HasSubstr("a control message of 2 bytes that rank 1 has not sent"));
  EXPECT_THAT(words_about(mirrored, sealed(mirrored.links[0]->keys(1), message)),
              HasSubstr("that rank 1 has not sent"));
  EXPECT_THAT(words_about(strange, sealed(keys_for_tests(Cipher::none)[1], message)),
              HasSubstr("that rank 1 has not sent"));
}

// More hosts than a node of the control tree has children.
TEST(ControlNeighbours, AreMutualAndEveryHostReachesRankZero) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < 140; ++rank) hosts.push_back("host" + std::to_string(rank * 7 % 70));
  const auto size = static_cast<Rank>(hosts.size());
  std::set<std::string> near_zero;
  for (Rank rank = 0; rank < size; ++rank) {
    const std::set<Rank> own = control_neighbours(rank, hosts);
    EXPECT_FALSE(own.contains(rank));
    EXPECT_FALSE(own.empty());
    for (const Rank other : own) EXPECT_TRUE(control_neighbours(other, hosts).contains(rank)) << rank;
    if (rank == 0 || own.contains(0)) near_zero.insert(hosts[rank]);
  }
  EXPECT_EQ(near_zero, std::set<std::string>(hosts.begin(), hosts.end()));
}

}  // namespace
}  // namespace rueda
