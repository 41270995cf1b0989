// SPDX-License-Identifier: Apache-2.0
// The parts of a sharded optimizer, which an elastic job can recover.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/held_parts.h"
#include "frameworks/torch/sharding/parameter_shards.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: divides the parameters anew when the ranks change, and gives each rank its parts of the present
// version. A version is a number of steps. Until the first division a rank has all parts, and cannot step.
// Used by the thread that steps. Belongs to a ShardedOptimizer.
//
// Each part is stepped by several ranks: by its owner, and by `copies` ranks after it, from the same
// gradients and with the same bits. So the copies cost no message. All ranks that pass the barrier before a
// step have all gradients, so they complete that step even if a rank is lost in it: end_step() keeps the
// failure back, and throw_kept_back() throws it after the commit. A rank whose barrier fails has all
// gradients, too: its step is due, and it takes that step later if another rank has taken it.
class RecoverableShards {
 public:
  using Groups = ParameterShards::Groups;
  using States = std::vector<SavedValues>;  // of each leaf, in the order of the groups

  // `alone`: without the other ranks, in an elastic job outside of elastic::run(). Else collective.
  RecoverableShards(const Groups& groups, Rank copies, bool alone, Runtime& runtime);

  const ParameterShards& shards() const { return *shards_; }
  // Whether ranks have divided the parameters.
  bool divided() const { return versions_.division > 0; }
  // Throws InvalidArgument unless they have.
  void check_divided() const;
  // From the next division on there are copies, and failures are kept back.
  void keep_copies() { recoverable_ = true; }

  // As those of ParameterShards.
  void begin_step(const Groups& stepped);
  void end_step(bool well);
  // Throws the failure that end_step() has kept back.
  void throw_kept_back() const { throw_if_error(failure_); }

  // Commits the present version: with a copy of it, or without.
  void save(States states);
  void note();
  // Goes back to the last commit, by the next divide(). Steps are refused until then.
  void restore() { restored_ = versions_.live != versions_.committed; }
  // Whether the rank has stepped since a note().
  bool is_ahead() const { return !kept_ && versions_.live != versions_.committed; }
  // Whether there was one step since the commit, and no operation of this rank has ended since that step.
  bool stepped_alone() const;

  // Chooses the version to go on from: that of rank `root`. Collective, as divide() after it.
  void agree_on_version(Rank root, Runtime& runtime);
  // True if this rank has still to take the last step before it: step the parts, then call end_due_step().
  bool is_step_due() const { return due_ && versions_.live + 1 == versions_.target; }
  void end_due_step();
  // Divides that version among all ranks. `states` are those of the present parts. Returns the new parts,
  // with their state. Throws InvalidArgument on all ranks if a part is lost. If it fails, all stays as it
  // was.
  std::vector<SavedParameter> divide(const States& states, Runtime& runtime);

 private:
  // Numbers of steps, and of the division.
  struct Versions {
    std::int64_t division = 0;  // 0: none
    std::int64_t live = 0;      // of the parts; kTorn: a step has failed in its midst
    std::int64_t committed = 0;
    std::int64_t target = 0;  // of agree_on_version()
    bool is_source = false;   // this rank is its root
  };
  static constexpr std::int64_t kTorn = -1;

  HeldParts hold(const States& states) const;
  std::vector<HeldParts> all_held(const States& states) const;

  const Groups given_;  // whole parameters
  const Rank copies_;
  std::unique_ptr<ParameterShards> shards_;
  Versions versions_;
  std::optional<HeldParts> kept_;  // of the last commit, if that has a copy
  std::vector<HeldParts> former_;  // of the division before, until all ranks have come to a step
  bool recoverable_ = false;
  bool due_ = false;              // the barrier before a step has failed
  bool restored_ = false;         // see restore()
  Status failure_;                // kept back
  std::uint64_t operations_ = 0;  // that had ended after the last step
};

}  // namespace rueda
