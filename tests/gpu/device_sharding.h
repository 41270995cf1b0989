// SPDX-License-Identifier: Apache-2.0
// A ShardedModel whose parameters are on a device, against the whole model on the host.
#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "core/engine/runtime.h"

namespace rueda {

// Losses of the same training in two ways, one for each step.
struct ShardedLosses {
  std::vector<double> sharded;  // of a ShardedModel on `device`
  std::vector<double> whole;    // of a DistributedOptimizer on the host
};

// Collective. Batches differ from rank to rank; a loss is this rank's.
ShardedLosses train_sharded_and_whole(Runtime& runtime, at::Device device);

// The largest difference of a loss from that of the whole, as a share. Throws std::runtime_error where there
// is no loss, or where the whole has not learned.
double relative_difference(const ShardedLosses& losses);

}  // namespace rueda
