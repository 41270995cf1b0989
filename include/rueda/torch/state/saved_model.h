// SPDX-License-Identifier: Apache-2.0
// What a sharded optimizer or model saves: values of parameters and of what the optimizer keeps for them.
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

namespace rueda {

// Values by the names under which an optimizer saves them; tensors in the host's memory.
using SavedValues = std::map<std::string, c10::IValue>;

// A parameter, or the elements of one from `begin` to `end` in the order of memory.
struct SavedParameter {
  std::string name;           // of the module's named_parameters()
  std::int64_t begin = 0;     // the first element
  std::int64_t end = 0;       // behind the last
  std::int64_t elements = 0;  // of the whole
  at::Tensor value;           // of the parameter's shape, or [end - begin]; undefined: its state only. What
                              // is saved is in the host's memory
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

// An archive as bytes, and back.
std::string bytes_of(const SavedModel& saved);
SavedModel saved_of(const std::string& bytes);

// Makes a state of the optimizer's kind for a parameter in a group with such options; null where it keeps
// none.
using MakeState = std::function<std::unique_ptr<torch::optim::OptimizerParamState>(
    const at::Tensor& leaf, const torch::optim::OptimizerOptions& options)>;

// That of `Opt`: the state that a step of one element leaves.
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
