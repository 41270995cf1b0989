// SPDX-License-Identifier: Apache-2.0
// An optimizer of which each rank has a part.
#pragma once

#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/state/per_rank_state.h"
#include "rueda/torch/state/saved_model.h"

namespace rueda {

class RecoverableParts;
namespace elastic {
class ShardedPart;
}  // namespace elastic

// Purpose: the common base of ShardedOptimizer and ShardedModel. Steps the parts that this rank has, and
// divides the whole anew when the ranks of an elastic job change. Used by the thread that steps.
class DividedOptimizer : public PerRankState {
 public:
  // Groups of parameters with their options, as torch's optimizers take them.
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;

 protected:
  DividedOptimizer() = default;
  DividedOptimizer(const DividedOptimizer&) = delete;
  DividedOptimizer& operator=(const DividedOptimizer&) = delete;

  // Steps this rank's parts between two barriers. If a rank fails, the others wait for it and get its error.
  void step_parts(const torch::optim::Optimizer& optimizer);
  // Returns the function that makes the state of a parameter.
  virtual const MakeState& make_state() const = 0;

 private:
  friend class elastic::ShardedPart;

  // Returns the parts, and the versions that can be recovered.
  virtual RecoverableParts& recoverable() const = 0;
  // Returns the name of the class, with an article.
  virtual std::string kind() const = 0;
  // Tells whether the parameters stay as they are from the end of a step to the next one.
  virtual bool changes_in_steps_only() const { return true; }
  // Steps the parts that this rank has. step_begins() comes before it, when no rank can refuse any more.
  virtual void step_leaves() = 0;
  virtual void step_begins() {}
  // Makes gradients undefined, unless a step with them is due.
  virtual void drop_gradients() = 0;
  // Begins to work with the parts of the present ranks. Collective.
  virtual void begin_generation(Runtime& runtime) = 0;

  // An elastic::State calls it: divides the version that rank `root` has among the present ranks. Collective.
  void divide(torch::optim::Optimizer& optimizer, Rank root, Runtime& runtime);

  std::vector<SavedValues> due_options_;  // of the groups, for a step that this rank has still to take
};

}  // namespace rueda
