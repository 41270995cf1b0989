// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/sharded_part.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/engine/runtime.h"

namespace rueda::elastic {

ShardedPart::ShardedPart(torch::optim::Optimizer& optimizer, DividedOptimizer& divided)
    : optimizer_(optimizer), divided_(divided), parts_(divided.recoverable()) {
  parts_.keep_copies();
  ShardedPart::save();
}

std::string ShardedPart::describe() const {
  return fmt::format("{} of {} groups and {} parameters", divided_.kind(), optimizer_.param_groups().size(),
                     parts_.parts().parameters().size());
}

void ShardedPart::keep_options() {
  options_.clear();
  for (const auto& group : optimizer_.param_groups()) options_.push_back(group.options().clone());
}

void ShardedPart::save() {
  keep_options();
  parts_.save(saved_states(optimizer_));
}

void ShardedPart::note() {
  keep_options();
  parts_.note();
}

Stepping ShardedPart::stepping() const {
  const bool alone = divided_.changes_in_steps_only() && parts_.stepped_alone();
  return alone ? Stepping::alone : Stepping::other;
}

void ShardedPart::restore() {
  parts_.restore();
  auto kept = options_.begin();
  for (auto& group : optimizer_.param_groups()) group.set_options((*kept++)->clone());
  divided_.drop_gradients();
}

void ShardedPart::sync(Rank root, const Scope& scope) {
  if (scope.ranks()) {
    refuse(fmt::format(
        "rank {}: {} in an elastic::State is for all ranks, and sync() is for {} "
        "of {}. Leave the process set out.",
        scope.runtime().topology().rank, divided_.kind(), scope.size(), scope.runtime().topology().size));
  }
  divided_.divide(optimizer_, root, scope.runtime());
}

}  // namespace rueda::elastic
