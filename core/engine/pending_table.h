// SPDX-License-Identifier: Apache-2.0
// The operations this rank has in flight, by process set and name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/entry.h"

namespace rueda {

// Purpose: keeps a name reserved from submission to completion, and the Entry until its Plan starts. Owned by
// the coordinator thread.
class PendingTable {
 public:
  // False when the name is in flight already; then `entry` is untouched.
  bool add(Entry&& entry);
  // The Entry of `key`, which stays reserved; nothing if no such Entry waits for a Plan.
  std::optional<Entry> start(KeyView key);
  // The operation is complete; its name is free.
  void finish(KeyView key);
  // Every Entry that waits for a Plan, of one process set or of all; their names are free.
  std::vector<Entry> take_all();
  std::vector<Entry> take_all(ProcessSetId set);
  bool contains(KeyView key) const { return entries_.contains(key); }

  bool empty() const { return entries_.empty(); }

 private:
  ByKey<std::optional<Entry>> entries_;  // empty optional: started
};

}  // namespace rueda
