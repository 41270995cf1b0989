// SPDX-License-Identifier: Apache-2.0
// Both ends of an agent's connection with ruedarun, in one process.
#pragma once

#include <sys/socket.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/agent/supervisor_line.h"

namespace rueda {

// Purpose: a line, and ruedarun's end of it.
struct Line {
  explicit Line(const AuthenticationKey& key = random_key()) : Line(key, sockets()) {}

  static std::array<Descriptor, 2> sockets() {
    std::array<int, 2> ends{-1, -1};
    ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
    return {Descriptor(ends[0]), Descriptor(ends[1])};
  }

  // All that has come to ruedarun.
  std::vector<agents::Message> arrived() {
    std::vector<agents::Message> all;
    for (int i = 0; i < 100; ++i) {
      agent.hear();
      ruedarun.progress();
      while (const std::optional<Bytes> bytes = ruedarun.take())
        all.push_back(agents::decode(*bytes).value());
    }
    return all;
  }

  SecureChannel ruedarun;
  SupervisorLine agent;

 private:
  Line(const AuthenticationKey& key, std::array<Descriptor, 2> ends)
      : ruedarun(SecureChannel::accept(std::move(ends[0]), key, agents::kLongestMessage)),
        agent(SecureChannel::connect(std::move(ends[1]), key, {}, agents::kLongestMessage)) {
    arrived();
  }
};

}  // namespace rueda
