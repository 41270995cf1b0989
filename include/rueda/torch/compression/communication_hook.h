// SPDX-License-Identifier: Apache-2.0
// The extension point for gradients that travel as something else than themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace rueda {

// The parameter that a hook is made for.
struct HookedParameter {
  std::string operation;  // names of the hook's operations begin with it; no others do
  std::string name;       // of the parameter
  at::Tensor tensor;      // the parameter itself, in its shape and type
  Reduction reduction;    // what the result must be, as an allreduce would make it
  ScopeReference scope;   // of the hook's operations
};

// Purpose: reduces the gradient of one parameter, step by step, in the manner of torch's communication hooks.
// What it keeps from step to step is its state. A step: begin(), advance() for each round after the first,
// finish(), clear(). Between two of these calls the hooks of other parameters are called, so that their
// operations run side by side. Collective: ranks make the same calls in the same order. Belongs to a
// ReductionRound, which guards it; called on threads of backward passes, too.
class CommunicationHook {
 public:
  virtual ~CommunicationHook() = default;

  // Begins to reduce `gradient`, whose memory is the hook's until finish() or clear().
  virtual void begin(const at::Tensor& gradient) = 0;
  // How many rounds of operations there are, one after another.
  virtual int rounds() const { return 1; }
  // Waits for round `round` - 1, and begins round `round`, from 2.
  virtual void advance(int /*round*/) {}
  // Waits for the last round. Then `gradient` is the reduced one, the same on all ranks, if this is ok.
  virtual Status finish() = 0;
  // After finish(), if reduction.measure: as Handle's.
  virtual double share_of_square_sum() const { return 0.0; }
  // Ends the step, also one that has failed; what is on its way may go on.
  virtual void clear() = 0;
};

// Makes the hook of a parameter.
using MakeHook = std::function<std::unique_ptr<CommunicationHook>(const HookedParameter&)>;

// A hook of the program's own, equal on all ranks.
struct CommunicationHookOptions {
  std::string name;  // which ranks compare; empty: no hook
  MakeHook make;     // called once for each parameter, by all ranks in one order
  std::function<bool(const at::Tensor&)> applies;  // to the gradient of that parameter; unset: to all
};

}  // namespace rueda
