// SPDX-License-Identifier: Apache-2.0
// The operations that this rank has in flight, by process set and name, and the process sets that the rank
// has joined.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/control/messages/id_set.h"
#include "core/engine/submissions/entry.h"

namespace rueda {

// A name of this rank, in flight or not.
struct PendingName {
  bool reserved = false;         // from submission to completion
  CacheId id = 0;                // under which it was last submitted; 0: in full
  std::string follows;           // one of a group: its first
  std::optional<Entry> waiting;  // for a Plan
};

// Purpose: keeps a name reserved from submission to completion, and the Entry until its Plan arrives. A
// name stays for its next call, until there are many that nobody uses. Owned by the background thread.
class PendingTable {
 public:
  // Finds its name. Why this rank cannot ask for that now, "has joined, ..."; empty when it can.
  // `known`: its process set is.
  std::string problem_in(Entry& entry, bool known);
  // One that nothing speaks against.
  void add(Entry&& entry);
  // When nothing is between the two: forgets names that have not been in use for long.
  void forget_unused();
  // Moves the Entry that a Plan calls to the end of `started`. The name of the Entry stays reserved. Returns
  // true if the Entry waited for a Plan.
  bool start(const Request& called, std::vector<Entry>& started);
  // The same with all that this rank has submitted together with it.
  void start_group(const Request& called, std::vector<Entry>& started);
  // The operation is complete; its name is free.
  void finish(Entry& entry);
  // Every Entry that waits for a Plan, of one process set or of all.
  std::vector<Entry> take_all(std::optional<ProcessSetId> set = {});
  // Whether others go on without this rank; from its submission of a join until everybody's.
  bool joined(ProcessSetId set) const { return joined_.contains(set); }
  void end_join(ProcessSetId set) { joined_.erase(set); }
  bool contains(KeyView key) const;
  // The name of the first of the group in which that one is in flight; empty: none, or the first itself.
  std::string first_of_group(KeyView key) const;

  // To the Handle of the Entry that waits for a Plan, if there is one: the ranks that it waits for.
  void tell_missing(KeyView key, const std::string& words);

  bool empty() const { return reserved_ == 0; }

 private:
  ByKey<PendingName> names_;
  std::size_t reserved_ = 0;
  std::size_t most_ = 0;  // that were reserved at a time since names were erased
  std::set<ProcessSetId> joined_;
};

// How many of them, from the first on, were submitted as one group; a group comes as a whole.
std::size_t of_one_group(std::span<const Entry> entries);

}  // namespace rueda
