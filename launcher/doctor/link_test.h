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

// Purpose: the first words of both sides. The one that connects proves that it knows the key; the other one's
// proof covers the fresh nonce, so that no stranger stands for a host. Of a fixed size, as it is sent.
struct LinkGreeting {
  std::uint32_t magic = 0;
  std::int32_t host = 0;  // who speaks
  std::int32_t card = 0;
  std::uint32_t unused = 0;
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

  LinkTest(int host, const AuthenticationKey& key) : host_(host), key_(key) {}

  // Writes its port into each card, 0 where nothing can listen.
  void listen(std::vector<agents::CardFacts>& cards);

  // Connects to the cards of others, each from the card of the same number.
  agents::Reached reach(const agents::ReachHosts& peers);
  agents::LinkMeasured measure(const agents::MeasureLink& wanted);

  // For those that connect to this host.
  void add_to(std::vector<pollfd>& waits) const;
  void serve();

 private:
  struct Guest {
    Descriptor socket;
    bool is_known = false;
    std::array<std::byte, sizeof(LinkGreeting)> block{};  // as far as it has come
    std::size_t count = 0;
  };
  struct Attempt {
    agents::ReachedCard about;
    Descriptor socket;
    Nonce nonce{};
    bool connected = false;
    bool over = false;
    std::array<std::byte, sizeof(LinkGreeting)> block{};
    std::size_t count = 0;
  };

  Attempt begin(int host, int card, const agents::CardFacts& own, const agents::CardFacts& theirs) const;
  void advance(Attempt& attempt) const;
  void greet(Attempt& attempt) const;
  void hear_greeting(Attempt& attempt) const;
  void accept();
  bool hear(Guest& guest);  // false: done with it
  bool welcome(Guest& guest) const;
  static bool obey(const Guest& guest, const LinkCommand& command);

  const int host_;
  const AuthenticationKey key_;
  std::vector<agents::CardFacts> cards_;
  std::vector<Descriptor> listening_;  // by card
  std::list<Guest> guests_;
  std::map<std::pair<int, int>, Descriptor> links_;  // by host and card
};

}  // namespace rueda
