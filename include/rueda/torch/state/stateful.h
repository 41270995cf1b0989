// SPDX-License-Identifier: Apache-2.0
// What LibTorch's archives can hold, as one type.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <variant>

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

// Purpose: refers to a tensor, a module or an optimizer whose state is to be saved or replaced; made of one
// where a function takes a Stateful. Lives for that call.
class Stateful {
 public:
  // The tensor itself is replaced by what is loaded.
  Stateful(at::Tensor& tensor) : thing_(&tensor) {}
  // All parameters and buffers.
  Stateful(torch::nn::Module& module) : thing_(&module) {}
  // Throws InvalidArgument for a ShardedOptimizer, of which each rank has a part.
  Stateful(torch::optim::Optimizer& optimizer);
  // The module that is held.
  template <class M>
  Stateful(const std::shared_ptr<M>& module) : Stateful(static_cast<torch::nn::Module&>(*module)) {}
  // The same.
  template <class M>
  Stateful(const torch::nn::ModuleHolder<M>& module) : Stateful(module.ptr()) {}

  // What ranks must agree on: the kind, and how many tensors or groups.
  std::string describe() const;
  // Where its tensors are, of a module or an optimizer the first; the CPU where there are none. An archive is
  // to be read there: it may have been written on a machine with other devices.
  at::Device device() const;
  // As torch::save writes it.
  void save(torch::serialize::OutputArchive& archive) const;
  // A tensor becomes what was saved. Parameters and buffers of a module get their values where they lie, so
  // that optimizers and shared memory stay theirs; throws InvalidArgument, and none has changed, when one has
  // another shape. An optimizer gets its state and its options.
  void load(torch::serialize::InputArchive& archive) const;

 private:
  std::variant<at::Tensor*, torch::nn::Module*, torch::optim::Optimizer*> thing_;
};

// An archive as bytes, which torch::load reads, and torch::save writes.
std::string to_bytes(torch::serialize::OutputArchive& archive);
std::string to_bytes(const Stateful& thing);
void from_bytes(const std::string& bytes, const Stateful& thing);

// Why `action` threw, without the stack that LibTorch adds; empty when it did not.
template <class Action>
std::string failure_of(Action&& action);
std::string current_failure();  // inside a catch block

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
