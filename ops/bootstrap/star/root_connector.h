// SPDX-License-Identifier: Apache-2.0
// A rank's way to its connection with the root of a star: rank 0, or a rank that passes on.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "core/base/system/descriptor.h"
#include "core/base/time.h"
#include "ops/bootstrap/address/root_finder.h"
#include "ops/bootstrap/star/star_edge.h"
#include "rueda/types.h"

namespace rueda {

// For which job a connection is, and as which rank of how many.
struct StarMember {
  Rank rank = 0;
  Rank size = 1;
  std::string job;  // tells jobs of different processes apart
  friend bool operator==(const StarMember&, const StarMember&) = default;
};
Bytes to_bytes(const StarMember& member);
// Nothing when the bytes are no member.
std::optional<StarMember> star_member_from(ConstBytes bytes);

// Purpose: looks for the root, connects, proves that this rank is of the job, and begins again when one of
// these fails. No call blocks. Used by the background thread.
class RootConnector {
 public:
  // `deadline`: of silence on the connection. `root`: for messages.
  RootConnector(StarMember self, std::unique_ptr<RootAddress> address, Duration deadline, Rank root = 0);

  // One step; the connection once the root has confirmed this rank. Throws std::runtime_error if the root
  // turns it away.
  std::optional<StarEdge> step(Time now);
  // Sleeps until the next step can do something, for `longest` at most.
  void wait(Duration longest);
  // That connection has ended: the next step begins anew.
  void begin_again(Time now);
  // Why the root was not reached last time, "127.0.0.1:4242: Connection refused".
  const std::string& obstacle() const { return obstacle_; }

 private:
  enum class State { looking, connecting, greeting };

  void look(Time now);
  void check_connection(Time now);
  bool check_greeting(Time now);
  void try_later(Time now, std::string why);

  const StarMember self_;
  RootFinder finder_;
  const Duration deadline_;
  const Rank root_rank_;
  State state_ = State::looking;
  TcpEndpoint root_;
  std::size_t next_ = 0;  // address of root_
  Descriptor socket_;     // while connecting
  Time since_{};          // of the state
  Time again_{};          // not before
  Time first_{};          // try of a row of tries
  std::optional<StarEdge> edge_;
  std::string obstacle_;
};

}  // namespace rueda
