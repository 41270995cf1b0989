// SPDX-License-Identifier: Apache-2.0
// The agent's connection with ruedarun.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "core/base/system/secure_channel.h"
#include "launcher/protocol/agent_message.h"

namespace rueda {

// Purpose: messages to ruedarun and from it. Those that ruedarun has not taken yet are at most of the cost
// kMostAhead; others wait here. So the window of the connection never closes, whatever keeps ruedarun from
// reading: SIGSTOP, a debugger. The kernel would end a connection whose window is closed for ten seconds, as
// if the network were lost. No call blocks. Owned by the agent's thread.
class SupervisorLine {
 public:
  explicit SupervisorLine(SecureChannel channel) : channel_(std::move(channel)) {}

  SecureChannel::State state() const { return channel_.state(); }
  int descriptor() const { return channel_.descriptor(); }
  bool wants_to_write() const { return channel_.has_unsent(); }  // to the socket, once it has room
  std::size_t unsent() const { return waiting_bytes_ + channel_.unsent(); }

  void tell(const agents::Message& message);
  // Sends and reads as much as is possible now; the messages that have come.
  std::vector<agents::Message> hear();
  void close_for_sending() { channel_.close_for_sending(); }

 private:
  void send_waiting();

  SecureChannel channel_;
  std::deque<Bytes> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t ahead_ = 0;  // the cost of messages that ruedarun has not taken yet
};

}  // namespace rueda
