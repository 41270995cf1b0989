// SPDX-License-Identifier: Apache-2.0
// The parts of a sharded optimizer, which an elastic job can recover.
#pragma once

#include "frameworks/torch/sharding/parameter_shards.h"
#include "frameworks/torch/sharding/recoverable_parts.h"

namespace rueda {

// Purpose: RecoverableParts of an optimizer that reduces whole gradients. So copies cost no message. Belongs
// to a ShardedOptimizer.
class RecoverableShards : public RecoverableParts {
 public:
  // `alone`: without the other ranks, in an elastic job outside of elastic::run(). Else collective.
  RecoverableShards(const Groups& groups, Rank copies, bool alone, Runtime& runtime);

  const ParameterShards& shards() const { return static_cast<const ParameterShards&>(parts()); }
};

}  // namespace rueda
