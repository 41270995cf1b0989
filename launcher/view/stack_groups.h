// SPDX-License-Identifier: Apache-2.0
// The stacks of all ranks, sorted by the place at which each one is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace rueda {

// Purpose: ranks whose main threads are at the same place. A plain value.
struct StackGroup {
  std::vector<int> workers;         // ascending
  bool is_spare = false;            // they have no ranks
  bool is_python = false;           // the frames are those of Python
  std::vector<std::string> frames;  // the innermost first; empty: not known
};

// Of "ranks" as in stacks_of_ranks(): the smallest group first, spares last. Ranks with Python are compared
// by that.
std::vector<StackGroup> stack_groups(const nlohmann::json& ranks);

// {"groups", "ranks", "silent", "notes"} of the answers of workers. Each one should be what launcher/stacks
// tells of a process; of another text the note says that. `silent` have not answered. `known`: "ranks" of
// JobView::status(), for ranks and names. A spare has no "rank". "silent" are names.
nlohmann::json stacks_of_ranks(const std::map<int, std::string>& answers, const std::vector<int>& silent,
                               const nlohmann::json& known);

// The same for people: the groups, and then every thread, if `verbose` says so. Throws
// nlohmann::json::exception where `stacks` is something else.
std::string stacks_text(const nlohmann::json& stacks, bool verbose);

}  // namespace rueda
