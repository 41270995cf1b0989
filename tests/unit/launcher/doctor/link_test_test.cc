// SPDX-License-Identifier: Apache-2.0
// Two hosts over loopback: they connect, measure, and refuse strangers.
#include "launcher/doctor/link_test.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

namespace rueda {
namespace {

using Cards = std::vector<agents::CardFacts>;

// A host that answers others on a thread of its own.
class Host {
 public:
  explicit Host(int number, const AuthenticationKey& key, std::size_t cards = 1) : test_(number, key) {
    for (std::size_t card = 0; card < cards; ++card) cards_.push_back({"lo", "127.0.0.1", 0, 0});
    test_.listen(cards_);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        std::vector<pollfd> waits;
        test_.add_to(waits);
        ::poll(waits.data(), waits.size(), 10);
        test_.serve();
      }
    });
  }

  const Cards& cards() const { return cards_; }

 private:
  LinkTest test_;
  Cards cards_;
  std::jthread thread_;
};

Descriptor connected_to(std::int32_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

class LinkTestTest : public testing::Test {
 protected:
  LinkTestTest() : key_(random_key()), other_(7, key_, 2), own_(1, key_) {
    cards_ = {{"lo", "127.0.0.1", 0, 0}, {"lo", "127.0.0.1", 0, 0}};
    own_.listen(cards_);
  }

  const AuthenticationKey key_;
  Host other_;
  LinkTest own_;
  Cards cards_;
};

TEST_F(LinkTestTest, ConnectsOverEachCardAndMeasures) {
  const agents::Reached reached = own_.reach({{{7, other_.cards()}}});
  ASSERT_EQ(reached.cards.size(), 2u);
  for (const agents::ReachedCard& card : reached.cards) EXPECT_EQ(card.problem, "");
  for (const int card : {0, 1, 0}) {
    const agents::LinkMeasured measured = own_.measure({7, card, 30});
    EXPECT_EQ(measured.problem, "");
    EXPECT_EQ(measured.card, card);
    EXPECT_GT(measured.round_trip, 0u);
    EXPECT_GT(measured.sent, 1'000'000u);
    EXPECT_GT(measured.received, 1'000'000u);
  }
}

TEST_F(LinkTestTest, NamesTheReasonWithoutAConnection) {
  Cards closed = other_.cards();
  const Descriptor reserved(::socket(AF_INET, SOCK_STREAM, 0));  // bound, and nobody listens
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(reserved.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::getsockname(reserved.number(), reinterpret_cast<sockaddr*>(&address), &length);
  closed[0].port = ntohs(address.sin_port);
  closed[1].port = 0;
  const agents::Reached reached = own_.reach({{{7, closed}}});
  EXPECT_EQ(reached.cards.at(0).problem, "Connection refused");
  EXPECT_EQ(reached.cards.at(1).problem, "nothing can listen there");
  EXPECT_EQ(own_.measure({7, 0, 30}).problem, "there is no connection");
}

TEST_F(LinkTestTest, AnotherHostAtTheAddressIsNoConnection) {
  const agents::Reached reached = own_.reach({{{8, other_.cards()}}});
  EXPECT_EQ(reached.cards.at(0).problem, "something else than that host answers there");
}

TEST_F(LinkTestTest, OneThatDoesNotKnowTheKeyIsRefused) {
  LinkTest stranger(1, random_key());
  stranger.listen(cards_);
  for (const agents::ReachedCard& card : stranger.reach({{{7, other_.cards()}}}).cards)
    EXPECT_NE(card.problem, "");
}

TEST_F(LinkTestTest, NoiseEndsOnlyItsOwnConnection) {
  const Descriptor noisy = connected_to(other_.cards()[0].port);
  const std::array<char, 256> noise{'x', 'y'};
  EXPECT_EQ(::send(noisy.number(), noise.data(), noise.size(), MSG_NOSIGNAL), ssize_t{noise.size()});
  char byte = 0;
  EXPECT_LE(::recv(noisy.number(), &byte, 1, 0), 0);  // closed
  EXPECT_EQ(own_.reach({{{7, other_.cards()}}}).cards.at(0).problem, "");
}

TEST_F(LinkTestTest, ASilentHostIsGivenUp) {
  const Descriptor silent(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(silent.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(silent.number(), 4), 0);
  ::getsockname(silent.number(), reinterpret_cast<sockaddr*>(&address), &length);
  const Cards cards{{"lo", "127.0.0.1", ntohs(address.sin_port), 0}};
  EXPECT_EQ(own_.reach({{{7, cards}}}).cards.at(0).problem, "no answer within 2 s");
}

}  // namespace
}  // namespace rueda
