// SPDX-License-Identifier: Apache-2.0
// Says of each Plan that reaches a rank whether the scripts allow it, now and there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/sim/world_script.h"

namespace rueda {

// Purpose: the oracle of a random world. It knows the script and who has submitted, joined and departed so
// far; it never looks into a Negotiator. A Plan is judged when it reaches the first rank; to all others it
// must come the same. Lives as long as its RandomWorld.
class PlanJudge {
 public:
  enum class State : std::uint8_t { waits, submitted, done };

  explicit PlanJudge(const WorldScript& script);

  void submitted(Rank rank, int call);
  void departed(Rank rank) { departed_[rank] = true; }
  void arrived(Rank rank, const Plan& plan);
  // Which ranks cannot carry out a Plan that has arrived somewhere.
  std::set<Rank> failing(std::uint64_t plan) const;
  static Status words_of(std::uint64_t plan, Rank rank);  // what such a rank says
  // A Plan that has arrived on the rank is over there, or has failed on some rank.
  void finished(Rank rank, std::uint64_t plan);
  void aborted(Rank rank, const Abort& abort);
  bool told(Rank rank, std::uint64_t plan) const;
  // Every rank is through; what must have come and has not is wrong.
  void finish();

  State state(Rank rank, int call) const { return states_[rank][call]; }
  bool in_flight(Rank rank, int set, const std::string& name) const {
    return in_flight_[rank].contains({set, name});
  }
  // Whether the rank has nothing to do with the Call any more, or never had.
  bool over(Rank rank, int call) const;
  // The Call is not to be submitted: what it depends on has ended well.
  bool dropped(Rank rank, int call) const;
  ProcessSetId id_of(int set) const { return ids_.at(set); }
  std::size_t plans(Rank rank) const { return seen_[rank]; }
  bool idle(Rank rank) const { return in_flight_[rank].empty(); }
  // Nothing will fail there any more, if it submits nothing more.
  bool rests(Rank rank) const { return idle(rank) && under_way_[rank].empty(); }

  const std::vector<std::string>& faults() const { return faults_; }
  void fault(std::string words);

 private:
  using Name = std::pair<int, std::string>;  // of a set, by the script's number
  struct Verdict {
    Plan plan;
    std::vector<int> calls;  // of its tensors
    std::optional<Status> aborted;
    std::set<Rank> told;  // of that
  };

  void judge(const Plan& plan);
  int call_of(const Plan& plan, const PlanTensor& tensor);
  void judge_call(const Plan& plan, const PlanTensor& tensor, int index);
  void judge_readiness(const Plan& plan, int index);
  void judge_ids(const Plan& plan);
  void judge_sets(const Plan& plan, int index);
  void complete(Rank rank, const Plan& plan, int index);
  void complete_one(Rank rank, int index);
  bool called(Rank rank, int index) const;

  const WorldScript& script_;
  std::vector<std::vector<State>> states_;      // by rank and Call
  std::vector<std::map<Name, int>> in_flight_;  // by rank
  std::vector<std::map<int, int>> joined_;      // by rank: sets, and the join in flight there
  std::vector<bool> departed_;
  std::vector<std::size_t> seen_;                   // Plans, by rank
  std::vector<std::set<std::uint64_t>> under_way_;  // Plans, by rank
  std::vector<Verdict> verdicts_;                   // by Plan
  std::map<Name, std::vector<int>> calls_;          // in the order of the script
  std::map<Name, std::size_t> called_;              // how many of them
  std::vector<std::uint8_t> ends_;                  // Plans of each Call
  std::vector<bool> ended_well_;                    // Calls
  std::map<int, ProcessSetId> ids_;
  std::map<ProcessSetId, int> sets_;
  ProcessSetId last_set_ = 0;
  struct Id {
    SharedRequest request;
    bool ended = false;
  };
  std::unordered_map<CacheId, Id> given_;
  std::vector<std::string> faults_;
};

}  // namespace rueda
