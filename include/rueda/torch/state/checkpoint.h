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
// same on every rank. A ShardedOptimizer is refused: each rank saves its part by save_part.
//
// Files are in the safetensors format, which any program can read. They hold data only: loading never runs
// code. A file of torch::save can run code. It is refused unless options.allow_code is set.

// Writes the file. Returns after it is complete and on the disk. Until then an older file of that name
// stays.
void save(const std::string& path, const NamedStates& things, const Scope& scope = {});
// Reads the file. `things` may be a part of the saved objects. If one does not fit, the objects before it
// are already loaded.
void load(const std::string& path, const NamedStates& things, const Scope& scope = {},
          const LoadOptions& options = {});

// The same for one object.
void save(const std::string& path, const Stateful& thing, const Scope& scope = {});
void load(const std::string& path, const Stateful& thing, const Scope& scope = {},
          const LoadOptions& options = {});

// Save and load the part of this rank. Every rank names a file of its own. Throw InvalidArgument with the
// file and the reason. save_part is for a ShardedOptimizer or a ShardedModel, load_part for a
// ShardedOptimizer. ShardedModel::load_parts loads the other.
void save_part(const std::string& path, const torch::optim::Optimizer& optimizer);
void load_part(const std::string& path, torch::optim::Optimizer& optimizer, const LoadOptions& options = {});

}  // namespace rueda
