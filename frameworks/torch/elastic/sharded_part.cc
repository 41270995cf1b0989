// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/sharded_part.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/engine/runtime.h"

namespace rueda::elastic {

ShardedPart::ShardedPart(torch::optim::Optimizer& optimizer, Sharded& sharded)
    : optimizer_(optimizer), sharded_(sharded), shards_(*sharded.shards_) {
  shards_.keep_copies();
  ShardedPart::save();
}

std::string ShardedPart::describe() const {
  return fmt::format("a ShardedOptimizer of {} groups and {} parameters", optimizer_.param_groups().size(),
                     sharded_.parameters().size());
}

void ShardedPart::keep_options() {
  options_.clear();
  for (const auto& group : optimizer_.param_groups()) options_.push_back(group.options().clone());
}

void ShardedPart::save() {
  keep_options();
  shards_.save(saved_states(optimizer_));
}

void ShardedPart::note() {
  keep_options();
  shards_.note();
}

Stepping ShardedPart::stepping() const {
  const bool alone = sharded_.distributed_.schedule == SyncSchedule::every_step() && shards_.stepped_alone();
  return alone ? Stepping::alone : Stepping::other;
}

void ShardedPart::restore() {
  shards_.restore();
  auto kept = options_.begin();
  for (auto& group : optimizer_.param_groups()) group.set_options((*kept++)->clone());
  for (const at::Tensor& parameter : sharded_.parameters()) parameter.mutable_grad().reset();
}

void ShardedPart::sync(Rank root, const Scope& scope) {
  if (scope.ranks()) {
    refuse(
        fmt::format("rank {}: a ShardedOptimizer in an elastic::State is for all ranks, and sync() is for {} "
                    "of {}. Leave the process set out.",
                    scope.runtime().topology().rank, scope.size(), scope.runtime().topology().size));
  }
  sharded_.divide(optimizer_, root, scope.runtime());
}

}  // namespace rueda::elastic
