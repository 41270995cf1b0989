// SPDX-License-Identifier: Apache-2.0
// What the ranks of a random world will do, and what must come of it.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/control/messages/message_pair.h"

#include "tests/support/worlds/control_world.h"

namespace rueda {

// One operation that some ranks submit once, and how it must end. Sets are numbered by the script (0: the
// world); which ids they get is rank 0's matter.
struct Call {
  int set = 0;
  Request request;                   // without process_set; without root for join and remove_process_set
  std::vector<StatusCode> outcomes;  // one of these
  std::vector<bool> takes_part;      // by rank: who submits it
  Rank odd = -1;                     // this rank submits odd_request instead
  Request odd_request;               // of the same key
  std::vector<int> after_submitted;  // Calls that a rank submits before this one
  std::vector<int> after_done;       // Calls that have ended on a rank before it submits this one
  Rank first = -1;                   // submits this Call whatever after_done says
  int unless_ok = -1;                // not submitted, or dropped without a Plan, where that Call ended well
  int other_set = -1;                // that is added or removed
  std::vector<Rank> fails_on;        // the Work of its Plan fails on these ranks
  std::vector<bool> last;            // join: who may be the last rank
  int first_of_group = -1;           // that Call, which comes before this one, submits this one too
};

// Calls that each rank submits in an order of its own.
struct ScriptPhase {
  std::vector<int> calls;
  bool overlaps = false;  // a rank may begin the next phase before these Calls have ended
};

// Purpose: a whole job, made from a seed. A plain value.
struct WorldScript {
  std::uint32_t seed = 0;
  Rank size = 1;
  ControlWorld::Options options;
  std::vector<Call> calls;
  std::vector<ScriptPhase> phases;
  std::vector<RankSet> sets;         // members by the script's number
  std::map<int, MessagePair> pairs;  // of those sets that are of messages
  std::vector<bool> leaves_early;    // these ranks depart instead of the last phase
  bool waits_to_depart = true;       // or departs while its Calls are in flight
  std::optional<Rank> lost;          // dies after so many actions of all ranks
  std::size_t lost_after = 0;
  std::vector<bool> stragglers;
  unsigned actions_in_8 = 4;  // how often a rank acts while messages wait
  Duration step{};            // of time, with each action
  bool regular = true;        // no rank is told apart from its neighbours: messages stay small

  std::size_t submissions() const;
  // The Calls that are submitted with that one: those from there to, not including, this one.
  int end_of_group(int first) const;
};

// `plain`: every Call ends by a Plan that waits for all members, and no rank is lost.
WorldScript make_script(std::uint32_t seed, Rank size, bool plain = false);

}  // namespace rueda
