// SPDX-License-Identifier: Apache-2.0
// Connections with other hosts over each card, and their latency and bandwidth.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "core/base/system/authentication.h"
#include "launcher/protocol/doctor_message.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: the words of both sides, behind a nonce of the one that is connected to. Each proves that it knows
// the key. A proof covers the other side's fresh nonce and number, so that nobody can repeat it, or send it
// to another host. Of a fixed size, as it is sent.
struct LinkGreeting {
  std::uint32_t magic = 0;
  std::int32_t host = 0;  // the one that speaks
  std::int32_t to = 0;    // the one that is meant
  std::int32_t card = 0;
  Nonce nonce{};
  Proof proof{};
};

// What the one that has connected asks for.
struct LinkCommand {
  enum class Kind : std::uint32_t { echo = 1, take, give };
  Kind kind = Kind::echo;
  std::uint32_t count = 0;  // echo: commands that come back; otherwise milliseconds
};

// Purpose: this host's side of all measurements. It listens on each card, answers others, connects, measures.
// Calls last some seconds at most, whatever others do. Nobody is asked and asks at one time: ruedarun decides
// who measures. Owned by one thread.
class LinkTest {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kConnectTimeout = std::chrono::seconds(2);
  static constexpr std::size_t kMostStrangers = 64;  // connections without a greeting yet
  static constexpr auto kStrangerTimeout = std::chrono::seconds(5);

  LinkTest(int host, const AuthenticationKey& key) : host_(host), key_(key) {}

  // Writes its port into each card, 0 where nothing can listen.
  void listen(std::vector<agents::CardFacts>& cards);

  // Connects to the cards of others as ranks do (ops/tcp/connect/connector.h): each card tries that of the
  // same number first, then the others. No card of a host has two connections.
  agents::Reached reach(const agents::ReachHosts& peers);
  agents::LinkMeasured measure(const agents::MeasureLink& wanted);

  // For those that connect to this host.
  void add_to(std::vector<pollfd>& waits) const;
  void serve();
  int timeout() const;  // of poll(), in milliseconds: serve() is due then; -1: never

 private:
  struct Guest {
    Descriptor socket;
    Clock::time_point deadline;  // of its greeting
    Nonce nonce{};               // for it
    bool is_known = false;
    std::array<std::byte, sizeof(LinkGreeting)> block{};  // as far as it has come
    std::size_t count = 0;
  };
  struct Attempt {
    agents::ReachedCard about;
    Descriptor socket;
    Nonce nonce{};
    enum class Stage { connecting, waiting_for_nonce, waiting_for_greeting, over } stage = Stage::connecting;
    bool over() const { return stage == Stage::over; }
    bool is_good() const { return over() && about.problem.empty(); }
    std::array<std::byte, sizeof(LinkGreeting)> block{};
    std::size_t count = 0;
  };

  Attempt begin(int host, int card, int peer_card, const agents::CardFacts& theirs) const;
  std::vector<Attempt> first_attempts(const agents::ReachHosts& peers) const;
  std::vector<Attempt> other_attempts(const agents::ReachHosts& peers,
                                      const std::vector<Attempt>& first) const;
  void finish(std::vector<Attempt>& attempts);
  void advance(Attempt& attempt) const;
  void note_connection(Attempt& attempt) const;
  void greet(Attempt& attempt) const;
  void hear_greeting(Attempt& attempt) const;
  void accept();
  bool drop_stranger();     // the oldest one; false: there is none that may go
  bool hear(Guest& guest);  // false: done with it
  bool welcome(Guest& guest) const;
  static bool obey(const Guest& guest, const LinkCommand& command);

  const int host_;
  const AuthenticationKey key_;
  std::vector<agents::CardFacts> cards_;
  std::vector<Descriptor> listening_;                // by card
  std::list<Guest> guests_;                          // in the order of arrival
  Clock::time_point next_accept_{};                  // not before
  std::map<std::pair<int, int>, Descriptor> links_;  // by host and card
};

}  // namespace rueda
