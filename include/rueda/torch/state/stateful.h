// SPDX-License-Identifier: Apache-2.0
// One type for all objects that LibTorch's archives can hold.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <variant>

#include "rueda/torch/state/archive.h"

namespace torch {
namespace nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace nn
namespace optim {
class Optimizer;
}  // namespace optim
namespace serialize {
class InputArchive;
class OutputArchive;
}  // namespace serialize
}  // namespace torch

namespace rueda {

// Purpose: refers to a tensor, a module or an optimizer with a state to save or to replace. Functions take a
// Stateful as a parameter; it lives for that call.
class Stateful {
 public:
  // Refers to a tensor. Loading replaces the tensor itself.
  Stateful(at::Tensor& tensor) : thing_(&tensor) {}
  // Refers to all parameters and buffers of a module.
  Stateful(torch::nn::Module& module) : thing_(&module) {}
  // Refers to an optimizer. Throws InvalidArgument for a ShardedOptimizer, since each rank has a part.
  Stateful(torch::optim::Optimizer& optimizer);
  // Refers to the module that `module` holds.
  template <class M>
  Stateful(const std::shared_ptr<M>& module) : Stateful(static_cast<torch::nn::Module&>(*module)) {}
  // Refers to the module that `module` holds.
  template <class M>
  Stateful(const torch::nn::ModuleHolder<M>& module) : Stateful(module.ptr()) {}

  // Returns the kind, and the number of tensors or groups. Ranks must agree on it.
  std::string describe() const;
  // Returns the device of the tensor, or of the first tensor of a module or optimizer. Returns the CPU if
  // there is none. Read archives to this device: they may come from a machine with other devices.
  at::Device device() const;
  // Writes the values that torch::save would write.
  void save(torch::serialize::OutputArchive& archive) const;
  // Loads the archive. A tensor becomes the saved one. A module gets values in the memory of its parameters
  // and buffers, so optimizers and shared memory keep them. Throws InvalidArgument if a shape differs, and
  // then changes nothing. An optimizer gets its state and its options.
  void load(torch::serialize::InputArchive& archive) const;

 private:
  std::variant<at::Tensor*, torch::nn::Module*, torch::optim::Optimizer*> thing_;
};

// Convert between an object and the safetensors file of its values. See to_bytes and read_archive of an
// archive.
std::string to_bytes(const Stateful& thing);
void from_bytes(const std::string& bytes, const Stateful& thing, const LoadOptions& options = {});

// Returns the reason why `action` threw, without the stack of LibTorch. Returns an empty string if it did
// not throw.
template <class Action>
std::string failure_of(Action&& action);
std::string current_failure();  // the same inside a catch block

template <class Action>
std::string failure_of(Action&& action) {
  try {
    action();
  } catch (...) {
    return current_failure();
  }
  return {};
}

}  // namespace rueda
