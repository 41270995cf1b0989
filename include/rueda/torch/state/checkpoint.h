// SPDX-License-Identifier: Apache-2.0
// Files that give every rank the same state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/state/stateful.h"

namespace rueda {

// Objects with their names. A name is unique and has no dots.
using NamedStates = std::vector<std::pair<std::string, Stateful>>;

// These save and load several objects:
//
//   rueda::save("training.pt", {{"model", model}, {"optimizer", optimizer}, {"step", step}});
//   rueda::load("training.pt", {{"model", model}, {"optimizer", optimizer}, {"step", step}});
//
// Collective among the ranks of the scope. The first of them reads or writes the file, so only its host
// needs the path. Throw InvalidArgument for a file that cannot be read or written, and for objects that
// cannot be saved or do not fit. Throw Mismatch if ranks name different files or objects. The text is the
// same on every rank. A ShardedOptimizer is refused: each rank saves its part by torch::save.

// Writes the file. Returns after it is complete and on the disk. Until then an older file of that name
// stays.
void save(const std::string& path, const NamedStates& things, const Scope& scope = {});
// Reads the file. `things` may be a part of the saved objects. If one does not fit, the objects before it
// are already loaded.
void load(const std::string& path, const NamedStates& things, const Scope& scope = {});

// The same for one object, in the format of torch::save and torch::load.
void save(const std::string& path, const Stateful& thing, const Scope& scope = {});
void load(const std::string& path, const Stateful& thing, const Scope& scope = {});

}  // namespace rueda
