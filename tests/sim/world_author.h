// SPDX-License-Identifier: Apache-2.0
// Invents what the ranks of a random world do.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/world_script.h"

namespace rueda {

// Purpose: writes one script. Lives for one make_script.
class WorldAuthor {
 public:
  WorldAuthor(std::uint32_t seed, Rank size, bool plain) : random_(seed), plain_(plain) {
    script_.seed = seed;
    script_.size = size;
    script_.sets = {RankSet(0, size)};
    live_ = {0};
    script_.leaves_early.resize(size);
    script_.stragglers.resize(size);
  }

  WorldScript write();

 private:
  unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  bool once_in(unsigned n) { return below(n) == 0; }
  Rank some_rank() { return static_cast<Rank>(below(script_.size)); }
  Rank member_of(int set) {
    return script_.sets[set].at(static_cast<Rank>(below(script_.sets[set].count())));
  }
  int some_set() { return once_in(2) ? 0 : live_[below(static_cast<unsigned>(live_.size()))]; }
  std::vector<bool> members(int set) const;
  RankSet some_members();

  int add(Call call) {
    script_.calls.push_back(std::move(call));
    script_.phases.back().calls.push_back(static_cast<int>(script_.calls.size()) - 1);
    return static_cast<int>(script_.calls.size()) - 1;
  }
  Call call_of(int set, Operation operation, std::string name);
  Request wish(Operation operation, std::string name);
  Call decision(int set, Operation operation, std::string_view name);
  void differ(Call& call);

  void set_scene();
  void plain_phase(int except_set = -1);
  void group(int set);
  void message();
  void differ_in_group(Call& first);
  void sets_phase();
  void removal_phase();
  void removal_in_flight(int set);
  void join_phase();
  void forbidden_while_joined(int set, const std::vector<unsigned>& batches);
  void last_phase();
  void crossed_phase();

  std::mt19937 random_;
  const bool plain_;
  WorldScript script_;
  std::vector<int> live_;  // sets
  unsigned per_phase_ = 8;
  unsigned names_ = 10;
  unsigned changes_ = 8;  // once in so many a name means something else
  unsigned unique_ = 0;   // numbers for names that do not come again
};

}  // namespace rueda
