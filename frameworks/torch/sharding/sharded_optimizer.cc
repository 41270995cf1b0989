// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/sharding/sharded_optimizer.h"

#include <utility>

#include "core/engine/runtime.h"
#include "frameworks/torch/reducer/generations.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "frameworks/torch/sharding/recoverable_shards.h"

namespace rueda {

Sharded::Sharded(const Groups& groups, const DistributedOptions& distributed, Runtime& runtime)
    : distributed_(checked_for_shards(distributed, runtime)),
      shards_(std::make_unique<RecoverableShards>(groups, distributed.part_copies,
                                                  Generations::of_process().is_deferred(runtime), runtime)) {
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

RecoverableParts& Sharded::recoverable() const { return *shards_; }

bool Sharded::changes_in_steps_only() const { return distributed_.schedule == SyncSchedule::every_step(); }

void Sharded::drop_gradients() {
  for (const at::Tensor& parameter : parameters()) parameter.mutable_grad().reset();
}

void Sharded::begin_generation(Runtime& runtime) {
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
