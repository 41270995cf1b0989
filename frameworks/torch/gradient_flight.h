// SPDX-License-Identifier: Apache-2.0
// The gradients of one step, on their way.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "core/rueda.h"
#include "frameworks/torch/operations.h"
#include "frameworks/torch/scope_reference.h"

namespace rueda {

// Purpose: the reductions of one step: submitted one by one, told which ranks have which, waited for. Belongs
// to a GradientSync, which guards it; where steps overlap that has two, which take turns. Collective: ranks
// call submit_presence(), holders() and wait() of a step in this order.
class GradientFlight {
 public:
  // `name`: what names of operations begin with. `parameters`: names, which end them.
  GradientFlight(std::string name, std::vector<std::string> parameters, const Reduction& reduction,
                 const ScopeReference& scope);

  // Reduces `gradient`, of parameter `index`, in place; it is kept until clear().
  void submit(std::size_t index, at::Tensor gradient);
  bool submitted(std::size_t index) const { return gradients_[index].memory.defined(); }
  // The first that was submitted; nothing when none was.
  std::optional<std::size_t> first() const;
  // Whether the memory is still being written. The parameter was submitted.
  bool in_flight(std::size_t index) const { return !gradients_[index].handle.done(); }
  const at::Tensor& memory(std::size_t index) const { return gradients_[index].memory; }

  // Tells the others which parameters were submitted here so far.
  void submit_presence();
  bool presence_submitted() const { return presence_.has_value(); }
  // Waits for what they tell: [i] = how many ranks have a gradient of parameter i.
  Status holders(std::vector<float>& holders) const;
  // Waits for all reductions. Returns the first failure, in words that name the parameter.
  Status wait() const;
  void clear();

 private:
  struct Gradient {
    Handle handle;
    at::Tensor memory;  // that the reduction works on; undefined: nothing submitted
  };

  const std::string name_;
  const std::vector<std::string> parameters_;
  const Reduction reduction_;
  const ScopeReference scope_;
  std::vector<Gradient> gradients_;
  std::optional<TensorHandle> presence_;
};

}  // namespace rueda
