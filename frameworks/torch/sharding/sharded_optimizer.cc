// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/sharding/sharded_optimizer.h"

#include <exception>

#include "core/engine/runtime.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "frameworks/torch/sharding/parameter_shards.h"

namespace rueda {

Sharded::Sharded(const Groups& groups, const DistributedOptions& distributed, Runtime& runtime)
    : shards_(std::make_unique<ParameterShards>(groups, runtime)),
      reducer_(shards_->parameters(), checked_for_shards(distributed, runtime), runtime) {}

Sharded::~Sharded() = default;

bool Sharded::shares_parameters() const { return shards_->shared(); }
const Sharded::Groups& Sharded::parts() const { return shards_->groups(); }
const std::vector<at::Tensor>& Sharded::parameters() const { return shards_->parameters(); }

void Sharded::step_part(const Groups& stepped, const std::function<void()>& step) {
  shards_->begin_step(stepped);
  std::exception_ptr failure;
  try {
    shards_->give_gradients();
    step();
  } catch (...) {
    failure = std::current_exception();
  }
  shards_->end_step(!failure);
  if (failure) std::rethrow_exception(failure);
}

SavedModel Sharded::gather_state(const torch::optim::Optimizer& optimizer, Rank root) const {
  return shards_->gather_state(optimizer, root);
}
void Sharded::load_state(torch::optim::Optimizer& optimizer, const MakeState& make_state,
                         const SavedModel& saved) const {
  shards_->load_state(optimizer, make_state, saved);
}
void Sharded::save_part(torch::serialize::OutputArchive& archive) const { shards_->save(archive); }
void Sharded::check_part(torch::serialize::InputArchive& archive) const { shards_->check(archive); }

}  // namespace rueda
