// SPDX-License-Identifier: Apache-2.0
// Some of a job's ranks, among which operations are carried out.
#pragma once

#include <memory>
#include <vector>

#include "rueda/rank_set.h"
#include "rueda/types.h"

namespace rueda {

// One rank's engine, opaque to programs: init() makes the only one that a process needs.
class Runtime;

// The Runtime that init() started. Throws NotInitialized before init(), after shutdown() and in a forked
// child.
Runtime& default_runtime();

// Purpose: names a process set that init() or add_process_set() made. A plain value, equal on all ranks;
// valid until remove_process_set() or shutdown(). Sets may overlap; operations of several sets may be in
// flight in any order.
class ProcessSet {
 public:
  // Used by process_sets() and add_process_set().
  ProcessSet(Runtime& runtime, ProcessSetId id, RankSet ranks)
      : runtime_(&runtime), id_(id), ranks_(std::make_shared<const RankSet>(std::move(ranks))) {}

  ProcessSetId id() const { return id_; }           // the same on all ranks
  const RankSet& ranks() const { return *ranks_; }  // of the job
  Rank size() const { return ranks_->count(); }     // number of members
  // Whether this rank is a member.
  bool included() const;
  // This rank's index among the members; -1 when it is none of them.
  Rank rank() const;

 private:
  friend class Scope;
  Runtime* runtime_;
  ProcessSetId id_;
  std::shared_ptr<const RankSet> ranks_;
};

// Purpose: the ranks of an operation: all ranks of a Runtime (the default one, if none is given), or a
// process set. The last parameter of every operation is a Scope.
class Scope {
 public:
  // All ranks of the default Runtime (throws NotInitialized where there is none), or of another; a set.
  Scope() : Scope(default_runtime()) {}
  Scope(Runtime& runtime) : runtime_(&runtime) {}
  Scope(const ProcessSet& set) : runtime_(set.runtime_), process_set_(set.id_), ranks_(set.ranks_) {}

  Runtime& runtime() const { return *runtime_; }             // that carries it out
  ProcessSetId process_set() const { return process_set_; }  // kWorld for all ranks
  // Members of the set; null for all ranks.
  const std::shared_ptr<const RankSet>& ranks() const { return ranks_; }
  // How many ranks; whether this one is among them.
  Rank size() const;
  bool included() const;
  // Returns a rank of the job by its index in the scope.
  Rank rank_at(Rank index) const { return ranks_ ? ranks_->at(index) : index; }
  // The same scope, for a caller that waits for its operation at once: the background thread need not be
  // woken.
  Scope awaited() const {
    Scope scope = *this;
    scope.awaited_ = true;
    return scope;
  }
  bool is_awaited() const { return awaited_; }

 private:
  Runtime* runtime_;
  ProcessSetId process_set_ = kWorld;
  std::shared_ptr<const RankSet> ranks_;
  bool awaited_ = false;
};

// Those that init() was given, in that order; a set made at run time is not among them.
std::vector<ProcessSet> process_sets(Runtime& runtime = default_runtime());

// Makes a process set of `ranks`. Every rank of the job calls it, with the same ranks, members or not;
// returns when all have. Throws InvalidArgument for no ranks, ranks that do not exist, and members that a set
// has already.
ProcessSet add_process_set(const RankSet& ranks, Runtime& runtime = default_runtime());
// Ends a set. Every rank of the job calls it, when the operations of the set are complete. If one is in
// flight, then either this throws InvalidArgument and changes nothing, or that operation ends with it: the
// same on all ranks. Throws it for a set that has been removed, too.
void remove_process_set(const ProcessSet& set, Runtime& runtime = default_runtime());

// This rank has no more data; others go on. Until every rank of the scope has joined, the joined ranks take
// part in allreduce (with the operation's identity; an average still divides by the size of the scope) and
// barrier, and any other operation fails on the ranks that call it, unless RUEDA_FULL_JOIN=1. A message waits
// for the rank that has joined, so receive it before. Returns the last rank that joined.
Rank join(Scope scope = {});

}  // namespace rueda
