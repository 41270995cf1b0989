// SPDX-License-Identifier: Apache-2.0
// Messages over sockets of this machine.
#include "ops/tcp/tcp_link.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <deque>
#include <random>

#include "tests/support/some_bytes.h"
#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

// Purpose: tickets of several links, until all are done.
class Pending {
 public:
  void add(TcpLink& link, Ticket ticket, std::size_t expected) { open_.push_back({&link, ticket, expected}); }
  bool all_done() {
    return wait_until([&] {
      std::erase_if(open_, [](const Open& open) {
        const std::optional<std::size_t> moved = open.link->done(open.ticket);
        if (!moved) return false;
        EXPECT_EQ(*moved, open.expected);
        return true;
      });
      return open_.empty();
    });
  }

 private:
  struct Open {
    TcpLink* link;
    Ticket ticket;
    std::size_t expected;
  };
  std::vector<Open> open_;
};

// Data as it is, and encrypted.
class TcpLinkWith : public testing::TestWithParam<Cipher> {};
INSTANTIATE_TEST_SUITE_P(Ciphers, TcpLinkWith,
                         testing::Values(Cipher::none, Cipher::chacha20_poly1305, best_cipher()),
                         [](const auto& test) {
                           return fmt::format("{}_{}", test.index,
                                              test.param == Cipher::none ? "plain" : "encrypted");
                         });

TEST_P(TcpLinkWith, MovesMessagesOfAnySize) {
  for (const std::size_t rails : {1, 2, 3}) {
    LinkedPair pair(rails, GetParam());
    for (const std::size_t size : {0, 1, 8192, 8193, 100000, 131072, 131073, 5000000}) {
      const Bytes sent = some_bytes(size, 1);
      for (const bool receive_first : {false, true}) {
        Bytes came(size + 3);
        Pending pending;
        if (receive_first) pending.add(pair.one, pair.one.post_receive(0, came, 7), size);
        pending.add(pair.zero, pair.zero.post_send(1, sent, 7), size);
        if (!receive_first) {
          EXPECT_FALSE(pair.one.done(pair.one.post_receive(0, {}, 8)));
          pending.add(pair.one, pair.one.post_receive(0, came, 7), size);
        }
        ASSERT_TRUE(pending.all_done()) << size;
        came.resize(size);
        ASSERT_TRUE(came == sent) << size;
        if (!receive_first) pending.add(pair.zero, pair.zero.post_send(1, {}, 8), 0);
        ASSERT_TRUE(pending.all_done());
      }
    }
  }
}

// Nobody waits for what others have not asked for: tags start at different moments, the large ones unread.
TEST_P(TcpLinkWith, NoMessageStandsInTheWayOfAnother) {
  LinkedPair pair(2, GetParam());
  constexpr std::size_t kLarge = 20 << 20;
  const Bytes large = some_bytes(kLarge, 1), small = some_bytes(100, 2);
  Pending later, now;
  for (Tag tag = 0; tag < 4; ++tag) later.add(pair.zero, pair.zero.post_send(1, large, tag), kLarge);
  Bytes came(100), back(100);
  now.add(pair.zero, pair.zero.post_send(1, small, 9), 100);
  now.add(pair.one, pair.one.post_receive(0, came, 9), 100);
  now.add(pair.one, pair.one.post_send(0, small, 9), 100);
  now.add(pair.zero, pair.zero.post_receive(1, back, 9), 100);
  ASSERT_TRUE(now.all_done());
  EXPECT_EQ(came, small);
  EXPECT_EQ(back, small);
  std::vector<Bytes> all(4, Bytes(kLarge));
  for (Tag tag = 4; tag-- > 0;) later.add(pair.one, pair.one.post_receive(0, all[tag], tag), kLarge);
  ASSERT_TRUE(later.all_done());
  for (const Bytes& one : all) EXPECT_TRUE(one == large);
}

TEST_P(TcpLinkWith, CancelledMessagesLeaveMemoryAlone) {
  LinkedPair pair(2, GetParam());
  constexpr std::size_t kSize = 6 << 20;
  const Bytes next = some_bytes(kSize, 2);
  auto gone = std::make_unique<Bytes>(some_bytes(kSize, 1));
  auto target = std::make_unique<Bytes>(kSize);
  const Ticket send = pair.zero.post_send(1, *gone, 1);
  const Ticket receive = pair.one.post_receive(0, *target, 1);
  // Until it is under way: what is cancelled then is a message that has begun.
  ASSERT_TRUE(wait_until([&] {
    EXPECT_FALSE(pair.zero.done(send));
    return pair.one.done(receive) || pair.one.traffic(0)[0].received > 100000;
  }));
  pair.zero.cancel(send);
  pair.one.cancel(receive);
  gone.reset();
  target.reset();
  Bytes came(kSize);
  Pending pending;
  pending.add(pair.zero, pair.zero.post_send(1, next, 1), kSize);
  pending.add(pair.one, pair.one.post_receive(0, came, 1), kSize);
  ASSERT_TRUE(pending.all_done());
  EXPECT_TRUE(came == next);
}

// Two rails, of which one is slow.
TEST(TcpLink, SlowRailsCarryLess) {
  auto [a, b] = tcp_pair();
  auto [c, relay_in] = tcp_pair();
  auto [relay_out, d] = tcp_pair();
  const int small = 16 << 10;
  ::setsockopt(c.number(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  ::setsockopt(relay_in.number(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  SocketRelay there_relay(Descriptor(::dup(relay_in.number())), Descriptor(::dup(relay_out.number())));
  SocketRelay back_relay(std::move(relay_out), std::move(relay_in));
  TcpLink zero(0), one(1);
  std::vector<ConnectedRail> here, there;
  for (Descriptor* socket : {&a, &c}) here.push_back({std::move(*socket), {}});
  for (Descriptor* socket : {&b, &d}) there.push_back({std::move(*socket), {}});
  zero.connect(1, std::move(here));
  one.connect(0, std::move(there));

  constexpr std::size_t kSize = 64 << 20;
  const Bytes sent = some_bytes(kSize, 1);
  Bytes came(kSize);
  const Ticket send = zero.post_send(1, sent, 1), receive = one.post_receive(0, came, 1);
  bool sent_all = false, came_all = false;
  int turn = 0;
  ASSERT_TRUE(wait_until([&] {
    if (!sent_all) sent_all = zero.done(send).has_value();
    if (!came_all) came_all = one.done(receive).has_value();
    if (++turn % 4 == 0) there_relay.step();
    back_relay.step();
    return sent_all && came_all;
  }));
  EXPECT_TRUE(came == sent);
  const std::vector<TcpPeer::Traffic> traffic = zero.traffic(1);
  EXPECT_GT(traffic[1].sent, 0u);
  EXPECT_LT(traffic[1].sent, traffic[0].sent / 4);
  EXPECT_GE(traffic[0].sent + traffic[1].sent, kSize);
}

constexpr Rank kRanks = 3;
constexpr int kMessages = 150;

// Message `number` from one rank to another.
Bytes message_of(Rank from, Rank to, int number) {
  const auto seed = static_cast<unsigned>(from + 10 * to + 100 * number);
  std::mt19937 random(seed);
  return some_bytes(random() % 5 == 0 ? random() % 400000 : random() % 10000, seed);
}

// Purpose: all messages of one rank with all others. Owned by a thread.
class Talk {
 public:
  Talk(TcpLink& link, Rank rank) : link_(link), rank_(rank), random_(static_cast<unsigned>(rank)) {}

  bool step() {
    post(static_cast<Rank>((rank_ + 1 + static_cast<int>(random_() % (kRanks - 1))) % kRanks), random_() % 2);
    bool all = true;
    for (Rank peer = 0; peer < kRanks; ++peer) {
      for (Side& side : sides_[peer]) {
        std::erase_if(side.open, [&](const Message& message) { return done(peer, side, message); });
        all &= peer == rank_ || (side.posted == kMessages && side.open.empty());
      }
    }
    return all;
  }

 private:
  static constexpr std::size_t kOpen = 15;

  struct Message {
    int number;
    Bytes bytes;
    Ticket ticket;
  };
  struct Side {
    int posted = 0;
    std::deque<Message> open;
  };

  void post(Rank peer, bool receives) {
    Side& side = sides_[peer][receives ? 1 : 0];
    if (side.posted == kMessages || side.open.size() == kOpen) return;
    const int number = side.posted++;
    const auto tag = static_cast<Tag>(number % 3);
    Message& message = side.open.emplace_back();
    message.number = number;
    message.bytes =
        receives ? Bytes(message_of(peer, rank_, number).size()) : message_of(rank_, peer, number);
    message.ticket =
        receives ? link_.post_receive(peer, message.bytes, tag) : link_.post_send(peer, message.bytes, tag);
  }
  bool done(Rank peer, const Side& side, const Message& message) {
    const std::optional<std::size_t> moved = link_.done(message.ticket);
    if (!moved) return false;
    EXPECT_EQ(*moved, message.bytes.size());
    const bool received = &side == &sides_[peer][1];
    EXPECT_TRUE(!received || message.bytes == message_of(peer, rank_, message.number));
    return true;
  }

  TcpLink& link_;
  Rank rank_;
  std::mt19937 random_;
  std::array<std::array<Side, 2>, kRanks> sides_;  // by peer: what is sent, what is received
};

// Each of three ranks in a thread, everybody with everybody, several tags at a time, random sizes.
TEST_P(TcpLinkWith, ManyMessagesBetweenThreads) {
  std::vector<std::unique_ptr<TcpLink>> links;
  for (Rank rank = 0; rank < kRanks; ++rank) links.push_back(std::make_unique<TcpLink>(rank));
  for (Rank low = 0; low < kRanks; ++low) {
    for (Rank high = low + 1; high < kRanks; ++high)
      connect_links(*links[low], low, *links[high], high, 2, GetParam());
  }
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Talk talk(*links[rank], rank);
      EXPECT_TRUE(wait_until([&] { return talk.step(); })) << "rank " << rank;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace rueda
