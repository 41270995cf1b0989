// SPDX-License-Identifier: Apache-2.0
// How parts of parameters and of their optimizer's state are saved, put together and taken apart.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/state/saved_model.h"
#include "rueda/types.h"

namespace rueda {

// The elements `begin` to `end` of a parameter, that a rank steps as `leaf`.
struct SteppedPart {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t elements = 0;
  at::Tensor leaf;
};

// The optimizer's state for a part; `value` is undefined.
SavedParameter saved_state_of(const SteppedPart& part, const torch::optim::Optimizer& optimizer);
// The optimizer's state for each of its parameters, in the order of its groups.
std::vector<SavedValues> saved_states(const torch::optim::Optimizer& optimizer);
// The options of its groups.
std::vector<SavedValues> saved_groups(const torch::optim::Optimizer& optimizer);

// Copies the elements that both have, values (where both have some) and state; returns how many these are.
// Throws InvalidArgument where the parameters are of different sizes.
std::int64_t take(SavedParameter& to, const SavedParameter& from);
// Throws InvalidArgument unless all elements of `parameter` were `taken`.
void check_whole(const SavedParameter& parameter, std::int64_t taken, Rank rank);

// The optimizer's state becomes that of `parts` with these leaves, and its options those of `groups`. Throws
// InvalidArgument for another number of groups.
void give_states(torch::optim::Optimizer& optimizer, const MakeState& make_state,
                 const std::vector<at::Tensor>& leaves, const std::vector<SavedParameter>& parts);
void give_groups(torch::optim::Optimizer& optimizer, const std::vector<SavedValues>& groups, Rank rank);

// On `root` the parts that the ranks have of the parameters in `whole` are put there. Collective, under names
// that begin with `name`.
void put_together(std::vector<SavedParameter>& whole, const SavedModel& own, const std::string& name,
                  Rank root, Runtime& runtime);

}  // namespace rueda
