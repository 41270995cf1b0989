// SPDX-License-Identifier: Apache-2.0
// The saved form of a sharded optimizer or model: parameters and their state.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rueda/torch/state/archive.h"

namespace rueda {

// Values by the names under which an optimizer saves them. Tensors lie in the host's memory.
using SavedValues = std::map<std::string, c10::IValue>;

// A parameter, or its elements from `begin` to `end` in the order of memory.
struct SavedParameter {
  std::string name;           // name in the module's named_parameters()
  std::int64_t begin = 0;     // index of the first element
  std::int64_t end = 0;       // index after the last element
  std::int64_t elements = 0;  // number of elements of the whole parameter
  // Values in the host's memory, of the parameter's shape or of shape [end - begin]. Undefined if only the
  // state is saved.
  at::Tensor value;
  // State by the names of the optimizer. Tensors of shape [end - begin] belong to the elements. Empty before
  // a step.
  SavedValues state;
};

// The part of one rank, or the whole from state_dict().
struct SavedModel {
  std::vector<SavedParameter> parameters;  // whole parameters, or parts
  std::vector<SavedValues> groups;         // options of each group
};

// Write and read an archive.
void write(torch::serialize::OutputArchive& archive, const SavedModel& saved);
// Throws InvalidArgument for an archive of another kind.
SavedModel read_saved_model(torch::serialize::InputArchive& archive);

// Convert to a safetensors file, and back.
std::string bytes_of(const SavedModel& saved);
SavedModel saved_of(const std::string& bytes, const LoadOptions& options = {});

// Makes the state of the optimizer for a parameter in a group with these options. Returns null if the
// optimizer keeps none.
using MakeState = std::function<std::unique_ptr<torch::optim::OptimizerParamState>(
    const at::Tensor& leaf, const torch::optim::OptimizerOptions& options)>;

// Returns the function that makes the state of an `Opt`: the state after a step of one element.
template <class Opt, class Options>
MakeState state_maker(const Options& defaults) {
  return [defaults](const at::Tensor& leaf, const torch::optim::OptimizerOptions& options) {
    const at::Tensor element = at::zeros({1}, leaf.options());
    Opt trial({element}, defaults);
    trial.param_groups()[0].set_options(options.clone());
    element.mutable_grad() = at::zeros({1}, leaf.options());
    trial.step();
    auto made = trial.state().begin();
    return made == trial.state().end() ? nullptr : std::move(made->second);
  };
}

}  // namespace rueda
