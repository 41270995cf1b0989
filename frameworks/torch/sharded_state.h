// SPDX-License-Identifier: Apache-2.0
// A ShardedModel as it is saved: parts of parameters, and what the optimizer keeps for them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frameworks/torch/sharded_units.h"

namespace rueda {

// Values by the names under which an optimizer saves them.
using SavedValues = std::map<std::string, c10::IValue>;

// A parameter, or the elements of one from `begin` to `end` in the order of memory.
struct SavedParameter {
  std::string name;           // of the module's named_parameters()
  std::int64_t begin = 0;     // the first element
  std::int64_t end = 0;       // behind the last
  std::int64_t elements = 0;  // of the whole
  at::Tensor value;           // of the parameter's shape, or [end - begin]
  // As the optimizer's state names them; tensors [end - begin] belong to the elements. Empty before a step.
  SavedValues state;
};

// What one rank has, or, from state_dict(), all of it.
struct SavedModel {
  std::vector<SavedParameter> parameters;  // or parts of them
  std::vector<SavedValues> groups;         // the options of each
};

// To and from files: torch::serialize::OutputArchive archive; write(archive, saved); archive.save_to(path).
void write(torch::serialize::OutputArchive& archive, const SavedModel& saved);
// Throws InvalidArgument for an archive of another kind.
SavedModel read_saved_model(torch::serialize::InputArchive& archive);

// Makes a state of the optimizer's kind for a parameter in a group with such options; null where it keeps
// none.
using MakeState = std::function<std::unique_ptr<torch::optim::OptimizerParamState>(
    const at::Tensor& leaf, const torch::optim::OptimizerOptions& options)>;

// What this rank has. The values are not copied.
SavedModel saved_part(ShardedUnits& units, const torch::optim::Optimizer& optimizer);
// All of it, on `root`; nothing elsewhere. Collective; one unit at a time.
SavedModel gather_saved(ShardedUnits& units, const torch::optim::Optimizer& optimizer, Rank root);

// `next` gives what was saved, one part after another, until it returns false. Together they hold all that
// this rank needs; else all ranks throw InvalidArgument, and the model is half loaded. Collective.
void load_saved(ShardedUnits& units, torch::optim::Optimizer& optimizer, const MakeState& make_state,
                const std::function<bool(SavedModel&)>& next);
// The same of what `root` has been given. Collective; one unit at a time.
void scatter_saved(ShardedUnits& units, torch::optim::Optimizer& optimizer, const MakeState& make_state,
                   const SavedModel& saved, Rank root);

}  // namespace rueda
