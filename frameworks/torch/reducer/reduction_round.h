// SPDX-License-Identifier: Apache-2.0
// The gradients of one step, on their way.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/submissions/submission.h"
#include "frameworks/torch/buffers/gradient_placement.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/compression/sparse_gather.h"
#include "rueda/rueda.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/collectives/scope_reference.h"
#include "rueda/torch/compression/communication_hook.h"

namespace rueda {

// Purpose: the reductions of one step: submitted one by one, told which ranks have which, waited for. Belongs
// to ReductionRounds; guarded with them. Collective: ranks
// call submit_presence(), holders() and wait() of a step in this order.
class ReductionRound {
 public:
  static constexpr float kDense = 1e9F;  // the share that is larger than that of sparse gradients
  using Groups = std::vector<std::optional<std::size_t>>;  // of each parameter
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    MakeHook hook;  // empty: the gradient travels whole
  };

  // `name`: the prefix of the names of operations; the names of parameters end them.
  ReductionRound(std::string name, const std::vector<Parameter>& parameters, Groups groups,
                 const Reduction& reduction, const ScopeReference& scope);
  ReductionRound(ReductionRound&&) = default;

  // Reduces `gradient`, of parameter `index`, in place, when its group is complete; it is kept until clear().
  // One that a hook reduces is the result only after wait().
  // A slot is free when its gradient is reduced and no tensor holds it. The next user's stream waits for the
  // earlier ones.
  void submit(std::size_t index, PlacedGradient gradient);
  // Zeros in place of a gradient that this rank does not have.
  void submit_stand_in(std::size_t index, PlacedGradient zeros);
  // The name of the reduction of the parameter's gradient; empty if a hook reduces it.
  std::string name_of(std::size_t index) const;
  bool in_group(std::size_t index) const { return groups_[index].has_value(); }
  // Whether another member of the parameter's group was submitted.
  bool group_begun(std::size_t index) const { return groups_[index] && !waiting_[*groups_[index]].empty(); }
  // Returns true if the parameter is to be reduced, by the numbers of holders() for it and for its group.
  bool due(std::size_t index, const std::vector<float>& holders) const;
  bool stands_in(std::size_t index) const { return gradients_[index].stand_in; }
  bool submitted(std::size_t index) const { return gradients_[index].memory.defined(); }
  bool has(std::size_t index) const { return submitted(index) || held(index).defined(); }
  // The first that was submitted; nothing when none was.
  std::optional<std::size_t> first() const;
  // Whether the memory is still being written. The parameter was submitted.
  bool in_flight(std::size_t index) const { return !gradients_[index].handle.done(); }
  const at::Tensor& memory(std::size_t index) const { return gradients_[index].memory; }

  // A sparse gradient, coalesced, that waits until all know how many elements the ranks have of it.
  void hold(std::size_t index, at::Tensor sparse) { gradients_[index].sparse = std::move(sparse); }
  const at::Tensor& held(std::size_t index) const { return gradients_[index].sparse; }
  // After holders(), of a parameter that has some: whether their gradients are all sparse, and together have
  // less than that share of the elements of a dense one.
  bool is_sparse(std::size_t index, float share) const { return densities_[index] < share; }
  // Gathers it; `parameter` tells shape and type where this rank has none.
  void gather(std::size_t index, const at::Tensor& parameter);

  // Tells the others which parameters were submitted here so far, or held.
  void submit_presence();
  bool presence_submitted() const { return presence_.has_value(); }
  // Waits for the ranks' answers: [i] = how many ranks have a gradient of parameter i, stand-ins left out.
  Status holders(std::vector<float>& holders);
  // Waits for all. Returns the first failure, in words that name the parameter; throws the exception of a
  // hook. After it memory() is the result.
  Status wait();
  // After wait(): whether a slot in a window is of use to the gradient; the same on all ranks.
  bool takes_window(std::size_t index) const { return gradients_[index].handle.takes_window(); }
  // After wait(): this rank's share of the sum of squares of all results. Reduction::measure.
  double share_of_square_sum() const;
  void clear();

 private:
  struct Gradient {
    Handle handle;
    at::Tensor memory;                         // that the reduction works on; undefined: nothing submitted
    std::shared_ptr<OperationTensors> placed;  // of one that lies in its slot
    bool stand_in = false;
    bool hooked = false;                 // its hook has begun
    at::Tensor sparse;                   // held back
    std::optional<SparseGather> gather;  // of it
  };
  // A member of a group that is not complete yet.
  struct Waiting {
    std::size_t index;
    Submission submission;
  };
  void submit_if_complete(std::size_t group);
  void begin_hook(std::size_t index);
  std::exception_ptr advance_hooks();
  Status wait_for(std::size_t index);

  const std::string name_;
  std::vector<std::string> parameters_;
  const Groups groups_;
  const Reduction reduction_;
  const ScopeReference scope_;
  std::vector<std::uint32_t> group_sizes_;
  std::vector<Gradient> gradients_;
  std::vector<std::unique_ptr<CommunicationHook>> hooks_;  // null: travels whole
  std::vector<std::vector<Waiting>> waiting_;              // by group
  std::optional<TensorHandle> presence_;
  std::vector<float> densities_;  // sums over ranks, after holders(); kDense and more: one is dense
};

}  // namespace rueda
