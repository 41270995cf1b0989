// SPDX-License-Identifier: Apache-2.0
// The operations this rank has in flight, by name.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/engine/entry.h"

namespace rueda {

// Purpose: keeps a name reserved from submission to completion, and the Entry until its Plan starts. Owned by
// the coordinator thread.
class PendingTable {
 public:
  // False when the name is in flight already; then `entry` is untouched.
  bool add(Entry&& entry);
  // The Entry of `name`, whose name stays reserved; nothing if no such Entry waits for a Plan.
  std::optional<Entry> start(const std::string& name);
  // The operation is complete; its name is free.
  void finish(const std::string& name) { entries_.erase(name); }
  // Every Entry that waits for a Plan; its names are free.
  std::vector<Entry> take_all();

  bool empty() const { return entries_.empty(); }

 private:
  std::unordered_map<std::string, std::optional<Entry>> entries_;  // empty optional: started
};

}  // namespace rueda
