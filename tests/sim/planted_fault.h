// SPDX-License-Identifier: Apache-2.0
// What a broken control plane would do, done to the messages of a sound one: so that the tests are known to
// see it.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/support/worlds/control_world.h"

namespace rueda {

// Purpose: makes one mistake in one world, at the first good moment. Lives as long as its RandomWorld.
class PlantedFault {
 public:
  enum class Kind {
    swapped_plans,     // two Plans of one message change places
    swapped_contents,  // the same, with numbers that look right
    dropped_bit,       // a Report loses an id
    early_bit,         // rank 0 hears of ids from children that have not reported them
    reused_id,         // a Plan names an id that has ended
    lost_abort,        // an Abort from rank 0 does not arrive
    changed_abort,     // or with other words
  };

  PlantedFault(Kind kind, std::uint32_t seed) : kind_(kind), random_(seed) {}

  // A message on its way.
  void pass(ControlWorld& world, Rank from, Rank to, Bytes& bytes);
  // A Plan as rank 0 has it.
  void change(Plan& plan) const;

  bool planted() const { return planted_; }

 private:
  void learn(Rank to, const Orders& orders);
  void change(Orders& orders);
  void change(Report& report);
  void change(Message& message, Rank from);
  void forge_reports(ControlWorld& world, Rank from, const Report& report);

  const Kind kind_;
  std::mt19937 random_;
  bool planted_ = false;
  std::set<Rank> children_;     // of rank 0
  std::uint64_t learnt_ = 0;    // the last Plan that rank 0 has sent
  std::vector<CacheId> ended_;  // ids, a message ago or longer
  std::vector<CacheId> ending_;
  std::map<CacheId, std::set<Rank>> open_;  // ids of the world's requests, and who has reported them
  struct Replacement {
    std::size_t tensor = 0;
    CacheId id = 0;
  };
  std::map<std::uint64_t, Replacement> replacements_;  // by Plan
};

}  // namespace rueda
