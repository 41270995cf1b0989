// SPDX-License-Identifier: Apache-2.0
// The side of ruedarun of its connections with the agents.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/system/secure_channel.h"
#include "launcher/protocol/agent_message.h"
#include "launcher/protocol/invitation.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: one connection for each host. Agents of other hosts come to a socket that listens until all are
// there; strangers are dropped after a wrong word or 5 s, and never block anybody. Nothing here blocks. Owned
// by the main thread of the supervisor; lives as long as the job. Closing it ends the agents.
class AgentServer {
 public:
  using Clock = std::chrono::steady_clock;
  struct Gone {};  // the connection has ended
  struct Heard {
    int host = 0;
    std::variant<Gone, agents::Message> what;
  };

  // `hosts`: their names, in the order of their numbers.
  explicit AgentServer(std::vector<std::string> hosts);

  // A host more. Its number is the next one.
  void add_host(const std::string& host);

  const AuthenticationKey& key() const { return key_; }
  // Listens for agents of other hosts until all are there. Throws std::system_error.
  Invitation invite();
  // The agent of a host on this machine, at the other end of `socket`.
  void take_in(Descriptor socket);

  int descriptor() const { return poll_.number(); }  // readable when turn() has something to do
  std::vector<Heard> turn();
  std::optional<Clock::time_point> next_deadline() const;  // turn() is due then, too

  void tell(int host, const agents::Message& message);
  void tell_all(const agents::Message& message);
  // Whether the output of ranks has to wait, since nobody reads it.
  void hold_output(bool hold);
  bool holds_output() const { return holds_output_; }
  bool all_gone() const { return there_ == 0; }
  void close();

 private:
  struct Stranger {
    SecureChannel channel;
    Clock::time_point deadline;
    bool of_this_machine = false;  // at the end of a pair of sockets: no stranger, in truth
  };

  void accept();
  void add_stranger(Descriptor socket, bool of_this_machine);
  void make_room();
  void hear_strangers();
  bool hear(Stranger& stranger);  // false: done with it
  int host_of(const AgentIntroduction& introduction) const;
  void hear_agent(int host, std::vector<Heard>& heard);
  void watch(const SecureChannel& channel, int key, bool known);

  const AuthenticationKey key_;
  std::vector<std::string> hosts_;
  Descriptor listening_;
  Descriptor poll_;
  std::list<Stranger> strangers_;
  std::vector<std::optional<SecureChannel>> agents_;  // by host
  std::vector<int> welcomed_;                         // just now
  std::size_t came_ = 0;                              // agents
  std::size_t there_ = 0;                             // those whose connection lives
  bool holds_output_ = false;
};

}  // namespace rueda
