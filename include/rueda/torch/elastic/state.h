// SPDX-License-Identifier: Apache-2.0
// The state that a training returns to when ranks are lost.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/elastic/kept.h"

namespace rueda::elastic {

// State::commit() and State::check_host_updates() throw it when workers wait to join, or are lost. run()
// catches it and keeps the state. It is no rueda::Error, since nothing has failed.
class WorkersChanged : public std::runtime_error {
 public:
  // `change` tells the reason.
  explicit WorkersChanged(const MembershipChange& change);
};

// Purpose: keeps the objects of a training. commit() keeps them as they are, restore() returns to that, and
// sync() gives all ranks the same. The random generators of LibTorch (CPU, and the current CUDA device) are
// kept for each rank, too. Gradients are not. Used by the thread that trains. The objects live as long.
//
//   rueda::elastic::State state({{"model", model}, {"optimizer", optimizer}, {"epoch", epoch}});
//
// A commit is full or light. A full commit copies everything. A light commit copies everything small, and
// only notes the versions of parameters and optimizer state. A commit is light if it and the commit before
// each follow one step of every DistributedOptimizer, without another operation of Rueda in between. Then no
// failure can come between a step and its commit. If an optimizer steps after a light commit and fails
// before the next, restore() keeps its parameters. sync() then takes the state of another rank. If all ranks
// have stepped, that step stays applied, and rank 0 warns. Change parameters between steps under
// at::NoGradGuard, not by set_data(), which versions do not show.
class State {
 public:
  // Keeps the objects as they are now. Before run() in an elastic job it keeps modules at the first sync().
  // Every rank names the same objects in the same order. Throws InvalidArgument for a name that is used
  // twice.
  explicit State(std::vector<std::pair<std::string, Kept>> objects);

  // Calls save(), then check_host_updates(). Not collective. Throws the failure of a ShardedOptimizer's step
  // that lost a rank: that step is complete, and is kept.
  void commit();
  // Keeps the objects as they are now, by a full or a light commit.
  void save();
  // Throws WorkersChanged if workers wait to join or to leave, or are lost. Not collective: each rank hears
  // of it by itself, and the first rank that leaves ends the operations of the others.
  void check_host_updates();
  // Returns to the last commit. Gradients become undefined.
  void restore();
  // Gives all ranks the state of the rank with the most commits. Sends nothing if all have the same, and no
  // object is divided among the ranks. Collective. Throws Mismatch if ranks name different objects. Throws
  // InvalidArgument if no rank has a whole state.
  void sync(const Scope& scope = {});

  // run() calls `callback` each time before training begins again. It calls no collective operation.
  void on_reset(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }
  // Returns true if the last commit was light.
  bool is_light() const { return light_; }
  // Returns the number of commits.
  std::int64_t commits() const { return commits_; }

  // run() calls these. check() throws the failure of a step that had to be completed before its commit, if
  // none has followed. keep_uncommitted() keeps the objects unless commit() has just done so.
  // ranks_changed() adapts them to the present ranks, and runs the callbacks.
  void check() const;
  void keep_uncommitted();
  void ranks_changed();
  // Replaces membership_change(), for programs that hear of workers in another way.
  void hear_by(std::function<std::optional<MembershipChange>()> changes) { changes_ = std::move(changes); }

 private:
  // Of a rank's objects: see source.h.
  struct Marks {
    bool fresh = true;          // they have not been given to this process yet
    bool ahead = false;         // an optimizer has stepped since the last commit, and nothing undoes it
    bool torn = false;          // a synchronisation has failed in its midst
    bool as_committed = false;  // nothing has changed since the last commit
  };
  // A random generator, and its kept state.
  struct Randomness {
    at::Generator generator;
    at::Tensor kept;
  };

  bool steps_alone() const;
  void keep(bool light);
  void keep_randomness();
  void receive(Rank source, const Scope& scope);

  std::vector<std::pair<std::string, std::shared_ptr<Part>>> parts_;
  std::vector<Randomness> random_;
  std::vector<std::function<void()>> callbacks_;
  std::function<std::optional<MembershipChange>()> changes_ = membership_change;
  double heard_at_ = 0;       // MembershipChange::since of the last change
  std::int64_t commits_ = 0;  // their number
  std::int64_t regular_ = 0;  // commits in a row with one step each
  bool light_ = false;        // the last commit
  Marks marks_;
};

}  // namespace rueda::elastic
