// SPDX-License-Identifier: Apache-2.0
// What this rank has asked for: the operations it has in flight, by process set and name, and the sets that
// it has joined.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/engine/entry.h"

namespace rueda {

// What a name stands for here.
struct PendingPlace {
  bool reserved = false;         // from submission to completion
  std::optional<Entry> waiting;  // for a Plan
};

// Purpose: keeps a name reserved from submission to completion, and the Entry until its Plan starts. The
// place of a name stays for its next call, until there are many that nobody uses. Owned by the coordinator
// thread.
class PendingTable {
 public:
  // Why this rank cannot ask for that now, "has joined, ..."; empty when it can. `known`: its process set is.
  std::string objection_to(const Request& request, bool known) const;
  // One that nothing speaks against.
  void add(Entry&& entry);
  // What waits for a Plan under that name; null if nothing does. Good until the next call.
  const Entry* waiting(KeyView key) const;
  // The same, if it is what a Plan calls. A rank that has joined may have a group in flight of which one has
  // the name of something else that the others go on with.
  const Entry* waiting_for(const Request& called) const;
  // Moves the Entry that a Plan calls, whose name stays reserved, to the end of `started`. Tells whether it
  // waited for a Plan.
  bool start(const Request& called, std::vector<Entry>& started);
  // The same with all that this rank has submitted together with it.
  void start_group(const Request& called, std::vector<Entry>& started);
  // The operation is complete; its name is free.
  void finish(Entry& entry);
  // Every Entry that waits for a Plan, of one process set or of all.
  std::vector<Entry> take_all();
  std::vector<Entry> take_all(ProcessSetId set);
  // Whether others go on without this rank; from its submission of a join until everybody's.
  bool joined(ProcessSetId set) const { return joined_.contains(set); }
  void end_join(ProcessSetId set) { joined_.erase(set); }
  bool contains(KeyView key) const;

  bool empty() const { return reserved_ == 0; }

 private:
  PendingPlace& place_of(KeyView key);
  static void take(PendingPlace& place, std::vector<Entry>& taken);

  ByKey<PendingPlace> places_;
  std::size_t reserved_ = 0;
  std::size_t most_ = 0;  // that were reserved at a time since places were erased
  std::set<ProcessSetId> joined_;
};

// How many of them, from the first on, were submitted as one group; a group comes as a whole.
std::size_t of_one_group(std::span<const Entry> entries);

}  // namespace rueda
