// SPDX-License-Identifier: Apache-2.0
// The side of ruedarun of its connections with the agents.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/system/frame_stream.h"
#include "launcher/protocol/agent_message.h"
#include "launcher/protocol/authentication.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: listens, lets in who proves to know the job's token, one connection for each rank, and passes on
// what they say. Strangers are dropped after a wrong word or 5 s, and never block anybody. Nothing here
// blocks. Owner: the main thread of the supervisor; lives as long as the job. Closing it ends the agents.
class AgentServer {
 public:
  using Clock = std::chrono::steady_clock;
  struct Gone {};  // the connection has ended
  struct Heard {
    explicit Heard(int from) : rank(from) {}
    int rank = 0;
    std::variant<Gone, agents::Started, agents::Ended> what;
  };

  AgentServer(const Token& token, int ranks, bool other_hosts);

  const std::string& addresses() const { return addresses_; }
  int descriptor() const { return poll_.number(); }  // readable when turn() has something to do
  std::vector<Heard> turn();
  std::optional<Clock::time_point> next_deadline() const;  // turn() is due then, too

  void tell(int rank, const agents::Message& message);
  void tell_all(const agents::Message& message);
  void close();

 private:
  struct Stranger {
    FrameStream stream;
    Clock::time_point deadline;
    std::optional<agents::Greeting> greeting;  // has come
    Nonce nonce{};                             // sent with the Challenge
  };

  void accept();
  void hear_strangers();
  bool hear(Stranger& stranger);  // false: done with it
  bool challenge(Stranger& stranger, const agents::Greeting& greeting);
  void welcome(Stranger& stranger, const agents::Answer& answer);
  void hear_agent(int rank, std::vector<Heard>& heard);
  void watch(const FrameStream& stream, int key, bool known);

  Token token_;
  Descriptor listening_;
  std::string addresses_;
  Descriptor poll_;
  std::list<Stranger> strangers_;
  std::vector<FrameStream> agents_;  // by rank
  std::vector<int> welcomed_;        // just now
};

}  // namespace rueda
