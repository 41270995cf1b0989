// SPDX-License-Identifier: Apache-2.0
// Two hosts over loopback: they connect, measure, and refuse strangers.
#include "launcher/doctor/link_test.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <span>
#include <thread>
#include <vector>

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

// Bytes that come until the connection ends.
std::size_t said_to(const Descriptor& socket) {
  std::array<std::byte, 1024> block{};
  std::size_t all = 0;
  for (ssize_t count; (count = ::recv(socket.number(), block.data(), block.size(), 0)) > 0;)
    all += static_cast<std::size_t>(count);
  return all;
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
  EXPECT_EQ(said_to(noisy), sizeof(Nonce));
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

// As LinkTest says it, to host 7; `theirs`: the nonce that came.
LinkGreeting greeting_for(const AuthenticationKey& key, const Nonce& theirs, std::int32_t to = 7) {
  LinkGreeting greeting{0x4b4c4452, 1, to, 0, random_nonce(), {}};
  const auto bytes = [](const auto& value) { return std::as_bytes(std::span(&value, 1)); };
  greeting.proof =
      prove(key, {bytes(greeting.magic), bytes(greeting.host), bytes(greeting.to), bytes(greeting.card),
                  std::span<const std::byte>(greeting.nonce), std::span<const std::byte>(theirs)});
  return greeting;
}

Nonce nonce_from(const Descriptor& socket) {
  Nonce nonce{};
  EXPECT_EQ(::recv(socket.number(), nonce.data(), nonce.size(), MSG_WAITALL), ssize_t{nonce.size()});
  return nonce;
}

void say(const Descriptor& socket, const LinkGreeting& greeting) {
  EXPECT_EQ(::send(socket.number(), &greeting, sizeof greeting, MSG_NOSIGNAL), ssize_t{sizeof greeting});
}

TEST_F(LinkTestTest, AGreetingWithAWrongProofHasNoAnswer) {
  const std::int32_t port = other_.cards()[0].port;
  const Descriptor wrong_key = connected_to(port), wrong_host = connected_to(port);
  say(wrong_key, greeting_for(random_key(), nonce_from(wrong_key)));
  EXPECT_EQ(said_to(wrong_key), 0u);
  say(wrong_host, greeting_for(key_, nonce_from(wrong_host), 8));
  EXPECT_EQ(said_to(wrong_host), 0u);
}

TEST_F(LinkTestTest, AGreetingIsGoodOnce) {
  const std::int32_t port = other_.cards()[0].port;
  const Descriptor first = connected_to(port), second = connected_to(port);
  const LinkGreeting greeting = greeting_for(key_, nonce_from(first));
  say(first, greeting);
  LinkGreeting answer;
  ASSERT_EQ(::recv(first.number(), &answer, sizeof answer, MSG_WAITALL), ssize_t{sizeof answer});
  EXPECT_EQ(answer.host, 7);
  nonce_from(second);
  say(second, greeting);
  EXPECT_EQ(said_to(second), 0u);
}

TEST_F(LinkTestTest, OfManyStrangersTheOldestGoes) {
  const std::int32_t port = other_.cards()[0].port;
  std::vector<Descriptor> strangers;
  for (std::size_t i = 0; i <= LinkTest::kMostStrangers; ++i) strangers.push_back(connected_to(port));
  EXPECT_EQ(said_to(strangers.front()), sizeof(Nonce));
  nonce_from(strangers.back());
  EXPECT_EQ(own_.reach({{{7, other_.cards()}}}).cards.at(0).problem, "");
}

TEST_F(LinkTestTest, ManyThatComeAtOneTimeAreNoStrangers) {
  constexpr std::size_t kMany = 2 * LinkTest::kMostStrangers;
  const Host other(9, key_, kMany);
  Cards cards(kMany, {"lo", "127.0.0.1", 0, 0});
  own_.listen(cards);
  const agents::Reached reached = own_.reach({{{9, other.cards()}}});
  ASSERT_EQ(reached.cards.size(), kMany);
  for (const agents::ReachedCard& card : reached.cards) EXPECT_EQ(card.problem, "") << card.card;
}

TEST_F(LinkTestTest, AStrangerIsForgottenInTime) {
  EXPECT_EQ(own_.timeout(), -1);
  const Descriptor silent = connected_to(cards_[0].port);
  own_.serve();
  EXPECT_GT(own_.timeout(), 0);
  EXPECT_LE(own_.timeout(), std::chrono::milliseconds(LinkTest::kStrangerTimeout).count());
}

// Without a free descriptor nobody comes in; nothing spins, and a stranger goes before a host waits.
TEST_F(LinkTestTest, WithoutDescriptorsAStrangerGoes) {
  LinkTest host(5, key_);
  Cards cards{{"lo", "127.0.0.1", 0, 0}};
  host.listen(cards);
  const Descriptor stranger = connected_to(cards[0].port);
  host.serve();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const Descriptor waiting = connected_to(cards[0].port), third = connected_to(cards[0].port);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  host.serve();  // drops the stranger
  host.serve();  // there is none to drop, so it waits
  std::vector<pollfd> waits;
  host.add_to(waits);
  const int timeout = host.timeout();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(waits.empty());
  EXPECT_GT(timeout, 0);
  EXPECT_EQ(said_to(stranger), sizeof(Nonce));
}

TEST_F(LinkTestTest, ACardWithoutAWayTakesAnotherOfThePeer) {
  Cards one_closed = other_.cards();
  one_closed[0].port = 0;
  const agents::Reached reached = own_.reach({{{7, one_closed}}});
  ASSERT_EQ(reached.cards.size(), 2u);
  EXPECT_NE(reached.cards[0].problem, "");  // the other card of the peer has a connection
  EXPECT_EQ(reached.cards[1].problem, "");
  const agents::Reached crossed = own_.reach({{{7, {other_.cards()[1]}}}});
  ASSERT_EQ(crossed.cards.size(), 1u);
  Cards moved{{"gone", "127.0.0.1", 0, 0}, {"gone", "127.0.0.1", 0, 0}, other_.cards()[1]};
  const agents::Reached found = own_.reach({{{7, moved}}});
  ASSERT_EQ(found.cards.size(), 2u);
  EXPECT_EQ(found.cards[0], (agents::ReachedCard{7, 0, 2, ""}));
  EXPECT_NE(found.cards[1].problem, "");  // no address has two connections
  EXPECT_EQ(own_.measure({7, 0, 30}).problem, "");
}

}  // namespace
}  // namespace rueda
