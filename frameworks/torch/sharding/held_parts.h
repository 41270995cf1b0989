// SPDX-License-Identifier: Apache-2.0
// How the parts of an optimizer or a model are found again when ranks are lost.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/state/saved_model.h"
#include "rueda/types.h"

namespace rueda {

// The parts that a rank has of one version of the whole. The whole is divided anew whenever the ranks change.
struct HeldParts {
  std::int64_t division = 0;  // its number, which grows
  Rank count = 1;             // of the parts in that division
  std::int64_t version = 0;   // the steps that have been taken
  std::map<Rank, std::vector<SavedParameter>> parts;
};

// The words of a rank on the parts that it holds.
struct Holding {
  std::int64_t division = 0;
  Rank count = 1;
  std::int64_t version = 0;
  std::vector<Rank> parts;
};

// The ranks that give the parts of a version.
struct Sources {
  std::int64_t division = 0;
  std::vector<Rank> givers;  // of each part
  friend bool operator==(const Sources&, const Sources&) = default;
};

// Chooses the newest division of which `holdings`, one list for each rank, have all parts of `version`. Of
// several ranks the lowest gives a part. The same on every rank. Throws InvalidArgument, which names the
// `subject`, and the parts that nobody has.
Sources choose_sources(const std::vector<std::vector<Holding>>& holdings, std::int64_t version,
                       const std::string& subject);

// The parts that each rank holds. Collective, under `name`.
std::vector<std::vector<Holding>> gather_holdings(const std::vector<HeldParts>& held, const std::string& name,
                                                  Runtime& runtime);

// Fills `needed`, values and state, from the parts that the sources hold of `version`. Collective, under
// names that begin with `name`. A message has one part, or a piece of a large one.
void receive_parts(const std::vector<HeldParts>& held, std::int64_t version, const Sources& sources,
                   std::vector<SavedParameter>& needed, const std::string& name, Runtime& runtime);

}  // namespace rueda
