// SPDX-License-Identifier: Apache-2.0
// All that ruedarun --doctor has heard and measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/protocol/doctor_message.h"

namespace rueda {

// A clock against ruedarun's, in nanoseconds: ahead by `offset`, right within `bound`.
struct ClockDifference {
  std::int64_t offset = 0;
  std::int64_t bound = 0;
};

struct ExaminedHost {
  std::string name;
  int ranks = 0;                           // of the job, by -np; 0: not given
  std::optional<agents::HostFacts> facts;  // none: the host has not answered
  std::string silence;                     // then: the reason
  std::string remedy;                      // and the way out
  std::optional<ClockDifference> clock;
};

// A connection that was tried: from a card of one host to a card of another.
struct TriedLink {
  int from = 0;
  int to = 0;
  int card = 0;
  int peer_card = 0;
  std::string problem;  // empty: connected
};

struct MeasuredLink {
  int from = 0;
  int to = 0;
  int card = 0;
  int peer_card = 0;
  std::uint64_t round_trip = 0;  // nanoseconds
  std::uint64_t sent = 0;        // bytes a second
  std::uint64_t received = 0;
  std::string problem;  // empty: none
};

// Purpose: the input of all checks. A plain value.
struct Examination {
  std::vector<ExaminedHost> hosts;
  std::vector<TriedLink> tried;
  std::vector<MeasuredLink> links;
  int partners = 0;        // hosts with which each has measured; 0: all others
  int unmeasured = 0;      // connections for which no time was left
  bool has_slots = false;  // the user or a resource manager has said how many ranks each host takes
  std::string network;     // of the job: "tcp", "mpi", "auto"
  std::string folder;
  std::vector<std::string> program;  // PROGRAM ARGS..., or nothing
};

}  // namespace rueda
