// SPDX-License-Identifier: Apache-2.0
// A ShardedModel as it is saved: parts of parameters, and the optimizer's state for them.
#pragma once

#include <torch/optim/optimizer.h>

#include <functional>

#include "frameworks/torch/sharding/unit_scheduler.h"
#include "frameworks/torch/state/saved_values.h"

namespace rueda {

// This rank's part. The values are not copied, but for those on a device.
SavedModel saved_part(UnitScheduler& units, const torch::optim::Optimizer& optimizer);
// All of it, on `root`; nothing elsewhere. Collective; one unit at a time.
SavedModel gather_saved(UnitScheduler& units, const torch::optim::Optimizer& optimizer, Rank root);

// `next` gives the saved parts, one after another, until it returns false. Together they hold all that this
// rank needs; else all ranks throw InvalidArgument, and the model is half loaded. Collective.
void load_saved(UnitScheduler& units, torch::optim::Optimizer& optimizer, const MakeState& make_state,
                const std::function<bool(SavedModel&)>& next);
// The same with the values that `root` has been given. Collective; one unit at a time.
void scatter_saved(UnitScheduler& units, torch::optim::Optimizer& optimizer, const MakeState& make_state,
                   const SavedModel& saved, Rank root);

}  // namespace rueda
