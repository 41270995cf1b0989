// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/sharding/divided_optimizer.h"

#include <exception>

#include "core/byte_exchange.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/recoverable_parts.h"
#include "rueda/torch/state/parameter_groups.h"

namespace rueda {

void DividedOptimizer::step_parts(const torch::optim::Optimizer& optimizer) {
  RecoverableParts& parts = recoverable();
  try {
    parts.begin_step(optimizer.param_groups());
  } catch (const Error&) {
    due_options_ = saved_groups(optimizer);
    throw;
  }
  step_begins();
  std::exception_ptr failure;
  try {
    step_leaves();
  } catch (...) {
    failure = std::current_exception();
  }
  parts.end_step(!failure);  // the others wait for it
  if (failure) std::rethrow_exception(failure);
}

void DividedOptimizer::divide(torch::optim::Optimizer& optimizer, Rank root, Runtime& runtime) {
  RecoverableParts& parts = recoverable();
  const Rank rank = runtime.topology().rank;
  parts.agree_on_version(root, runtime);
  if (parts.is_step_due()) {
    const std::vector<SavedValues> options = saved_groups(optimizer);
    give_groups(optimizer, due_options_, rank);
    step_leaves();
    parts.end_due_step();
    give_groups(optimizer, options, rank);
  }
  std::string options;
  if (rank == root) options = bytes_of(SavedModel{.parameters = {}, .groups = saved_groups(optimizer)});
  broadcast_bytes(options, root, runtime.next_name("elastic_options", kWorld), runtime);
  const std::vector<SavedParameter> states = parts.divide(saved_states(optimizer), runtime);
  const Groups& groups = parts.parts().groups();
  for (std::size_t i = 0; i < groups.size(); ++i) optimizer.param_groups()[i].params() = groups[i].params();
  give_groups(optimizer, saved_of(options).groups, rank);
  give_states(optimizer, make_state(), parameters_of(groups), states);
  begin_generation(runtime);
}

}  // namespace rueda
