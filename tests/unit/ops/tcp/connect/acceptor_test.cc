// SPDX-License-Identifier: Apache-2.0
// The listening side and somebody who repeats the words of a rank.
#include "ops/tcp/connect/acceptor.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "ops/sockets/tcp_socket.h"
#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

// Rank 1 waits for rank 0, by one card.
struct Waiting {
  TcpSecret secret = random_key();
  std::vector<Descriptor> listeners;
  TcpAddress address;
  std::optional<TcpAcceptor> acceptor;

  Waiting() {
    OpenedSocket opened = listen_at(kTestAddress);
    address = address_of(opened.socket, kTestAddress);
    listeners.push_back(std::move(opened.socket));
    acceptor.emplace(1, secret, listeners, RankSet::of(0), std::chrono::seconds(5), false);
  }
  void step() { acceptor->step(clock_now()); }
};

// One connection to that rank.
struct Caller {
  Waiting& waiting;
  Descriptor socket;

  Caller(Waiting& to, const TcpHello& hello) : waiting(to), socket(connect_to(to.address).socket) {
    EXPECT_TRUE(wait_until([&] { return connect_error(socket) == 0; }));
    EXPECT_TRUE(send_block(socket, hello));
  }
  // Nothing where the connection has been closed.
  std::optional<TcpAnswer> answer() {
    BlockReader<TcpAnswer> reader;
    auto came = BlockReader<TcpAnswer>::Came::not_yet;
    EXPECT_TRUE(wait_until([&] {
      waiting.step();
      return (came = reader.read(socket)) != BlockReader<TcpAnswer>::Came::not_yet;
    }));
    return came == BlockReader<TcpAnswer>::Came::all ? std::optional(reader.block()) : std::nullopt;
  }
  bool is_closed() {
    BlockReader<TcpAnswer> reader;
    return wait_until([&] {
      waiting.step();
      return reader.read(socket) == BlockReader<TcpAnswer>::Came::never;
    });
  }
};

TEST(TcpAcceptor, WhoRepeatsAHelloNeitherTakesARailNorKeepsTheRankOut) {
  Waiting waiting;
  const ExchangeKeys exchange = random_exchange_keys();
  const TcpHello hello = make_hello(waiting.secret, 0, 1, 0, 0, exchange.open);
  std::vector<Caller> before;
  for (int i = 0; i < 40; ++i) {
    before.emplace_back(waiting, hello);
    ASSERT_TRUE(before.back().answer());
  }
  Caller rank(waiting, hello);
  const std::optional<TcpAnswer> answer = rank.answer();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(before.front().is_closed());  // the eldest
  Caller& last = before.back();
  EXPECT_TRUE(send_block(last.socket, Settled{0, 1, {}}));
  EXPECT_TRUE(last.is_closed());
  EXPECT_TRUE(waiting.acceptor->take_complete().empty());
  const auto keys = keys_of(HandshakeSide::connecting, hello, *answer, waiting.secret, exchange);
  ASSERT_TRUE(keys);
  EXPECT_TRUE(send_block(rank.socket, settled_as(0, 1, *keys)));
  EXPECT_TRUE(wait_until([&] {
    waiting.step();
    return waiting.acceptor->take_complete().contains(0);
  }));
  Caller after(waiting, hello);
  EXPECT_FALSE(after.answer());
}

TEST(TcpAcceptor, ARailThatCannotBeIsRefused) {
  for (const auto& [rail, rails] : {std::pair(1, 1), std::pair(0, 0), std::pair(0, 2)}) {
    Waiting waiting;
    const ExchangeKeys exchange = random_exchange_keys();
    const TcpHello hello = make_hello(waiting.secret, 0, 1, 0, 0, exchange.open);
    Caller rank(waiting, hello);
    const std::optional<TcpAnswer> answer = rank.answer();
    ASSERT_TRUE(answer);
    const auto keys = keys_of(HandshakeSide::connecting, hello, *answer, waiting.secret, exchange);
    EXPECT_TRUE(send_block(
        rank.socket, settled_as(static_cast<std::size_t>(rail), static_cast<std::size_t>(rails), *keys)));
    EXPECT_TRUE(rank.is_closed());
    EXPECT_TRUE(waiting.acceptor->take_complete().empty());
  }
}

}  // namespace
}  // namespace rueda
