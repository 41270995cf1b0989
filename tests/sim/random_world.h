// SPDX-License-Identifier: Apache-2.0
// Carries out the script of a random world and watches that nothing comes of it but what must.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/sim/plan_judge.h"
#include "tests/sim/planted_fault.h"
#include "tests/sim/world_script.h"

namespace rueda {

// Purpose: the ranks of one world over a ControlWorld. Each submits what its script says, at random times;
// a Plan completes what it names at once. Lives for one run.
class RandomWorld {
 public:
  // `fault`: what to do wrong on the way; null: nothing.
  explicit RandomWorld(const WorldScript& script, PlantedFault* fault = nullptr);

  // What went wrong, in words; empty if all went as it must.
  std::vector<std::string> run();

 private:
  void play();
  bool act(Rank rank);
  bool may_submit(Rank rank, int call) const;
  bool submit_something(Rank rank);
  void submit(Rank rank, int call);
  void enter_phase(Rank rank);
  bool leave_phase(Rank rank);
  void depart(Rank rank);
  bool anybody_acts();
  bool wait_for_time();

  void arrive(Rank rank, Plan& plan);
  void give_up_one();
  bool let_rest();
  void lose_one();
  void break_off(Rank rank);
  void check_end();
  void check_survivors();
  void check_sizes();

  const WorldScript& script_;
  PlantedFault* fault_;
  ControlWorld world_;
  PlanJudge judge_;
  struct Actor {
    std::size_t phase = 0;
    std::vector<int> todo;  // of the phase, in this rank's order
    bool departed = false;
    bool rested = false;
  };
  std::vector<Actor> actors_;
  std::vector<Rank> active_;  // have not departed
  std::vector<TreeNode> tree_;
  std::vector<std::pair<Rank, std::uint64_t>> failures_;  // Plans that a rank cannot carry out, not yet said
  std::vector<Rank> restless_;                            // may have come to rest
  std::size_t actions_ = 0;
  bool lost_ = false;
  std::vector<Rank> witnesses_;  // of the loss, who have not heard of it yet
  Status loss_;
};

}  // namespace rueda
