// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/sharding/sharded_optimizer.h"

#include <exception>
#include <utility>

#include "core/byte_exchange.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/reducer/generations.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "frameworks/torch/sharding/recoverable_shards.h"
#include "rueda/torch/state/parameter_groups.h"

namespace rueda {

Sharded::Sharded(const Groups& groups, const DistributedOptions& distributed, Runtime& runtime)
    : distributed_(checked_for_shards(distributed, runtime)),
      shards_(std::make_unique<RecoverableShards>(groups, distributed.part_copies,
                                                  Generations::of_process().meet_later(runtime), runtime)) {
  if (shards_->divided()) make_reducer(runtime);
}

Sharded::~Sharded() = default;

bool Sharded::shares_parameters() const { return shards_->shards().shared(); }
const Sharded::Groups& Sharded::parts() const { return shards_->shards().groups(); }
const std::vector<at::Tensor>& Sharded::parameters() const { return shards_->shards().parameters(); }

void Sharded::make_reducer(Runtime& runtime) {
  reducer_.reset();  // a parameter belongs to one reducer at a time
  reducer_ = std::make_unique<GradientReducer>(parameters(), distributed_, runtime);
}

GradientReducer& Sharded::reducer() const {
  if (!reducer_) shards_->check_divided();
  return *reducer_;
}

bool Sharded::before_zero_grad() const { return !reducer_ || reducer_->before_zero_grad(); }

void Sharded::step_part(const torch::optim::Optimizer& optimizer) {
  try {
    shards_->begin_step(optimizer.param_groups());
  } catch (const Error&) {
    due_options_ = saved_groups(optimizer);
    throw;
  }
  std::exception_ptr failure;
  try {
    step_leaves();
  } catch (...) {
    failure = std::current_exception();
  }
  shards_->end_step(!failure);
  if (failure) std::rethrow_exception(failure);
}

void Sharded::divide(torch::optim::Optimizer& optimizer, Rank root, Runtime& runtime) {
  const Rank rank = runtime.topology().rank;
  shards_->agree_on_version(root, runtime);
  if (shards_->is_step_due()) {
    const std::vector<SavedValues> options = saved_groups(optimizer);
    give_groups(optimizer, due_options_, rank);
    step_leaves();
    shards_->end_due_step();
    give_groups(optimizer, options, rank);
  }
  std::string options;
  if (rank == root) options = bytes_of(SavedModel{.parameters = {}, .groups = saved_groups(optimizer)});
  broadcast_bytes(options, root, runtime.next_name("elastic_options", kWorld), runtime);
  const std::vector<SavedParameter> states = shards_->divide(saved_states(optimizer), runtime);
  for (std::size_t i = 0; i < parts().size(); ++i) optimizer.param_groups()[i].params() = parts()[i].params();
  give_groups(optimizer, saved_of(options).groups, rank);
  give_states(optimizer, make_state(), parameters_of(parts()), states);
  const Generations::InRun all_ranks_are_here;
  make_reducer(runtime);
}

SavedModel Sharded::gather_state(const torch::optim::Optimizer& optimizer, Rank root) const {
  shards_->check_divided();
  return shards_->shards().gather_state(optimizer, root);
}
void Sharded::load_state(torch::optim::Optimizer& optimizer, const MakeState& make_state,
                         const SavedModel& saved) const {
  shards_->shards().load_state(optimizer, make_state, saved);
}
void Sharded::save_part(torch::serialize::OutputArchive& archive) const { shards_->shards().save(archive); }
void Sharded::check_part(torch::serialize::InputArchive& archive) const { shards_->shards().check(archive); }

}  // namespace rueda
