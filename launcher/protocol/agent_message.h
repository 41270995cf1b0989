// SPDX-License-Identifier: Apache-2.0
// What agents and ruedarun tell each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/base/bytes.h"
#include "launcher/protocol/authentication.h"

namespace rueda::agents {

// Why a rank has ended.
enum class Cause : std::uint8_t {
  own,         // nobody asked for it
  asked,       // ruedarun did
  proxy_gone,  // the agent did, because Hydra's proxy beside it has ended
  hydra,       // the agent did, because Hydra sent it SIGTERM
};

// Agent to ruedarun, the first message.
struct Greeting {
  std::int32_t rank = 0;
  Nonce nonce{};
  bool operator==(const Greeting&) const = default;
};
// ruedarun to agent: proves that it is the right one.
struct Challenge {
  Nonce nonce{};
  Proof proof{};
  bool operator==(const Challenge&) const = default;
};
// Agent to ruedarun.
struct Answer {
  Proof proof{};
  bool operator==(const Answer&) const = default;
};
// Agent to ruedarun: the rank runs.
struct Started {
  std::string host;
  std::int32_t process = 0;  // the rank's
  std::int32_t agent = 0;
  std::int32_t proxy = 0;
  bool operator==(const Started&) const = default;
};
// Agent to ruedarun: the rank has ended; `status` is what wait() says.
struct Ended {
  std::int32_t status = 0;
  Cause cause = Cause::own;
  bool operator==(const Ended&) const = default;
};
// ruedarun to agent: another rank has failed.
struct PeerEnded {
  std::int32_t rank = 0;
  std::string words;  // "rank 2 (process 17 on node3) was killed by signal 9 (Killed)"
  bool operator==(const PeerEnded&) const = default;
};
// ruedarun to agent: for the rank and all in its process group.
struct SendSignal {
  std::int32_t signal = 0;
  bool operator==(const SendSignal&) const = default;
};
// ruedarun to agent: the same for a signal that ruedarun was sent. How the rank answers is its own affair.
struct PassOn {
  std::int32_t signal = 0;
  bool operator==(const PassOn&) const = default;
};
// ruedarun to agent: every rank has ended. The agent clears up and ends.
struct JobOver {
  bool operator==(const JobOver&) const = default;
};

using Message =
    std::variant<Greeting, Challenge, Answer, Started, Ended, PeerEnded, SendSignal, JobOver, PassOn>;

Bytes encode(const Message& message);
// Nothing when `bytes` are no message.
std::optional<Message> decode(ConstBytes bytes);

}  // namespace rueda::agents
