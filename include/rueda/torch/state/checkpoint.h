// SPDX-License-Identifier: Apache-2.0
// Files from which every rank gets the same state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/state/stateful.h"

namespace rueda {

// Each under a name of its own, without dots.
using NamedStates = std::vector<std::pair<std::string, Stateful>>;

// rueda::save("training.pt", {{"model", model}, {"optimizer", optimizer}, {"step", step}});
// rueda::load("training.pt", {{"model", model}, {"optimizer", optimizer}, {"step", step}});
// Collective among the scope's ranks, whose first reads or writes the file: only there need the path exist.
// Throw InvalidArgument, in the same words on every rank, for a file that cannot be written or read, and what
// cannot be saved or does not fit; Mismatch when the ranks mean different files or things. A ShardedOptimizer
// is refused: each rank saves its part by torch::save.

// Returns when the file is complete and on the disk; until then a file of that name stays what it was.
void save(const std::string& path, const NamedStates& things, const Scope& scope = {});
// Some of what was saved will do. When it throws, things before the one that does not fit are loaded.
void load(const std::string& path, const NamedStates& things, const Scope& scope = {});

// One thing alone, in a file as torch::save writes and torch::load reads it.
void save(const std::string& path, const Stateful& thing, const Scope& scope = {});
void load(const std::string& path, const Stateful& thing, const Scope& scope = {});

}  // namespace rueda
