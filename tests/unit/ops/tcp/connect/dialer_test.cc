// SPDX-License-Identifier: Apache-2.0
// Pairs of ranks that connect when a message first goes between them.
#include "ops/tcp/connect/dialer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "ops/tcp/connect/listener.h"
#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Ranks {
  std::vector<std::string> hosts, peer_infos;
  std::vector<std::unique_ptr<TcpListener>> listeners;
  std::vector<std::unique_ptr<TcpLink>> links;

  explicit Ranks(Rank size, double deadline = 10) : hosts(static_cast<std::size_t>(size), "here") {
    for (Rank rank = 0; rank < size; ++rank) {
      TcpSettings settings;
      settings.cards = {"127.0.0.1"};
      settings.deadline = deadline;
      TcpListener::Opened opened = TcpListener::open(settings);
      EXPECT_TRUE(opened.door) << opened.status.message;
      peer_infos.push_back(opened.door->endpoint());
      listeners.push_back(std::move(opened.door));
      links.push_back(std::make_unique<TcpLink>(rank));
    }
    for (Rank rank = 0; rank < size; ++rank)
      links[rank]->dial_on_demand(listeners[rank]->dial_on_demand(rank, hosts, peer_infos));
  }
};

TEST(TcpDialer, MessagesWaitForTheConnectionAndArriveInOrder) {
  constexpr Rank kSize = 5;
  Ranks ranks(kSize);
  struct Sent {
    Ticket send, receive;
    Rank from, to;
    Bytes out, in;
  };
  std::vector<Sent> all;
  std::mt19937 random(3);
  for (int i = 0; i < 120; ++i) {
    const Rank from = static_cast<Rank>(random() % kSize),
               to = static_cast<Rank>((from + 1 + random() % (kSize - 1)) % kSize);
    Bytes out(1 + random() % 90'000, static_cast<std::byte>(random()));
    Bytes in(out.size());
    all.push_back({0, 0, from, to, std::move(out), std::move(in)});
  }
  for (Sent& each : all) {
    each.send = ranks.links[each.from]->post_send(each.to, each.out, 1);
    each.receive = ranks.links[each.to]->post_receive(each.from, each.in, 1);
  }
  EXPECT_TRUE(wait_until([&] {
    for (const auto& link : ranks.links) link->progress();
    return std::ranges::all_of(all, [&](const Sent& each) {
      return ranks.links[each.from]->over(each.send) && ranks.links[each.to]->over(each.receive);
    });
  }));
  for (Sent& each : all) {
    EXPECT_EQ(ranks.links[each.to]->done(each.receive), each.out.size());
    EXPECT_TRUE(ranks.links[each.from]->done(each.send));
    EXPECT_EQ(each.in, each.out);
  }
}

TEST(TcpDialer, APeerMayComeMuchLater) {
  Ranks ranks(2, 0.2);
  Bytes out(1000, std::byte{3}), in(1000);
  const Ticket sent = ranks.links[0]->post_send(1, out, 1);
  const Time later = clock_now() + std::chrono::milliseconds(700);
  while (clock_now() < later) ranks.links[0]->progress();
  const Ticket came = ranks.links[1]->post_receive(0, in, 1);
  EXPECT_TRUE(wait_until([&] {
    for (const auto& link : ranks.links) link->progress();
    return ranks.links[0]->over(sent) && ranks.links[1]->over(came);
  }));
  EXPECT_EQ(in, out);
}

TEST(TcpDialer, APeerThatTakesNoConnectionIsNamed) {
  Ranks ranks(2, 0.3);
  ranks.links[1].reset();  // its listener has gone, too
  Bytes bytes(10);
  ranks.links[0]->post_receive(1, bytes, 1);
  std::string error;
  EXPECT_TRUE(wait_until([&] {
    try {
      ranks.links[0]->progress();
    } catch (const std::runtime_error& thrown) {
      error = thrown.what();
    }
    return !error.empty();
  }));
  EXPECT_THAT(error, AllOf(HasSubstr("rank 0 found no way by TCP to rank 1"), HasSubstr("127.0.0.1")));
}

}  // namespace
}  // namespace rueda
