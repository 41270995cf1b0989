// SPDX-License-Identifier: Apache-2.0
// The gradients of one step: out of .grad, reduced, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "frameworks/torch/buffers/gradient_accumulation.h"
#include "frameworks/torch/buffers/gradient_buffers.h"
#include "frameworks/torch/reducer/gradient_norm.h"
#include "frameworks/torch/reducer/gradient_ownership.h"
#include "frameworks/torch/reducer/reduction_rounds.h"
#include "frameworks/torch/reducer/step_warnings.h"
#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"
#include "rueda/torch/reducer/distributed_options.h"

namespace rueda {

// Purpose: for a list of parameters, takes the gradients of a step, gives each to a ReductionRound, waits for
// the results and puts them into .grad. Knows nothing of passes and of when a step begins: a GradientSync
// tells it, and guards it.
class StepReduction {
 public:
  // Collective: Mismatch if ranks have other parameters or options. `reduction`: of each gradient.
  StepReduction(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                const Reduction& reduction, const Scope& scope);

  std::size_t size() const { return parameters_.size(); }
  const std::string& name(std::size_t index) const { return parameters_[index].name; }
  std::vector<at::Tensor> tensors() const;
  Scope scope() const { return scope_.get(); }
  Rank rank() const { return scope().runtime().topology().rank; }
  StepWarnings& warnings() { return *warnings_; }
  GradientBuffers& buffers() { return *buffers_; }
  // Whether the passes of a step must follow one another.
  bool is_sequential() const { return accumulation_->is_sequential(); }
  // Whether the last gradient of this step has come.
  bool complete(std::size_t index) const { return parameters_[index].complete; }

  // In hooks: the parameter's gradient is about to change; pass number `pass` has changed it, the last if
  // `last`. False: there is none.
  void before_accumulation(std::size_t index);
  bool add(std::size_t index, int pass, bool last);

  // Reduces the parameter's gradient, multiplied by `factor` before. While it is reduced it is .grad too,
  // unless it is of another type. `holders`: of its memory, if nothing else has it.
  void submit(std::size_t index, double factor, std::size_t holders = 1);
  // The gradients that are complete.
  void submit_complete();
  // All others that this rank has, multiplied by `factor`; tells the other ranks which these are.
  void announce(double factor);
  // Turns to the step whose results are due (ReductionRounds). False: none is.
  bool turn();
  // Waits for the results and puts them into .grad. Returns the first failure, in words that name the
  // parameter.
  Status finish();
  // Of the last results, as they were reduced; nothing where it is not measured.
  std::optional<double> norm() const { return norm_ ? norm_->last() : std::nullopt; }
  // Whatever comes of the step, nothing of it is left.
  void reset();

  // The first parameter that has a gradient in reduction.
  std::optional<std::size_t> first() const { return rounds_->current().first(); }
  bool overlaps_steps() const { return rounds_->overlaps(); }
  bool on_its_way() const { return rounds_->on_its_way(); }
  // Puts this rank's gradients of this step into .grad, if they are not there yet.
  void show_local_gradients();
  // Multiplies .grad of parameters that are trained.
  void scale_gradients(double factor) const;
  // Leaves no .grad in the memory for gradients, but those that the program holds.
  void release_gradients() const;

 private:
  struct Parameter {
    at::Tensor tensor;
    std::string name;
    bool complete = false;
    std::optional<const void*> found{};  // .grad at the first pass of this step; unset: there was none
    std::int64_t sparse_dimensions = 0;  // of the last gradient here; 0: it was dense
  };

  void take_over(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                 const Reduction& reduction);
  void claim(const Parameter& parameter);
  bool waits(std::size_t index) const;
  void submit_stand_in(std::size_t index);
  void put_results(const std::vector<float>& holders);
  void submit_held(const std::vector<float>& holders);
  void detach();
  bool is_gathered(std::size_t index, const std::vector<float>& holders) const;
  at::Tensor result_of(std::size_t index) const;

  const ScopeReference scope_;
  const SparseGradients sparse_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<GradientAccumulation> accumulation_;
  std::unique_ptr<ReductionRounds> rounds_;
  std::optional<GradientBuffers> buffers_;
  std::optional<StepWarnings> warnings_;
  std::optional<SharedNorm> norm_;  // where it is measured
  GradientOwnership owned_;
};

}  // namespace rueda
