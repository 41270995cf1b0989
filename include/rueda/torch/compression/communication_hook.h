// SPDX-License-Identifier: Apache-2.0
// An interface for your own reductions of gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"

namespace rueda {

// Describes the parameter of one hook.
struct HookedParameter {
  std::string operation;  // prefix for the names of the hook's operations
  std::string name;       // name of the parameter
  at::Tensor tensor;      // the parameter itself
  Reduction reduction;    // the result must equal that of this allreduce
  ScopeReference scope;   // ranks of the hook's operations
};

// Purpose: reduces the gradient of one parameter in each step, as torch's communication hooks do. It may
// keep state between steps. A step calls begin(), advance() for each further round, finish() and clear().
// Calls for other parameters may come in between, so operations overlap. All ranks make the same calls in
// the same order. A ReductionRound owns and guards it. Threads of backward passes call it, too.
class CommunicationHook {
 public:
  virtual ~CommunicationHook() = default;

  // Begins to reduce `gradient`. The hook owns its memory until finish() or clear().
  virtual void begin(const at::Tensor& gradient) = 0;
  // Returns the number of successive rounds of operations.
  virtual int rounds() const { return 1; }
  // Waits for round `round` - 1, then begins round `round`. The first call has round 2.
  virtual void advance(int /*round*/) {}
  // Waits for the last round. If it returns ok, `gradient` is reduced and equal on all ranks.
  virtual Status finish() = 0;
  // Returns the value of Handle::share_of_square_sum(). Called after finish() if reduction.measure is set.
  virtual double share_of_square_sum() const { return 0.0; }
  // Ends the step, also after a failure. Operations in flight may continue.
  virtual void clear() = 0;
};

// Makes the hook of one parameter.
using MakeHook = std::function<std::unique_ptr<CommunicationHook>(const HookedParameter&)>;

// Describes a hook of the program. Equal on all ranks.
struct CommunicationHookOptions {
  std::string name;  // compared between ranks; empty: no hook
  MakeHook make;     // called once for each parameter, in one order on all ranks
  std::function<bool(const at::Tensor&)> applies;  // selects parameters; unset: all
};

}  // namespace rueda
