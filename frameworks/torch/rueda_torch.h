// SPDX-License-Identifier: Apache-2.0
// The whole of Rueda for LibTorch programs: one include.
#pragma once

#include "core/rueda.h"                                       // IWYU pragma: export
#include "frameworks/torch/collectives/capture.h"             // IWYU pragma: export
#include "frameworks/torch/collectives/empty.h"               // IWYU pragma: export
#include "frameworks/torch/collectives/grouped_operations.h"  // IWYU pragma: export
#include "frameworks/torch/collectives/operations.h"          // IWYU pragma: export
#include "frameworks/torch/data/average_metric.h"             // IWYU pragma: export
#include "frameworks/torch/data/samplers.h"                   // IWYU pragma: export
#include "frameworks/torch/local_sgd/sync_schedule.h"         // IWYU pragma: export
#include "frameworks/torch/nn/distributed_model.h"            // IWYU pragma: export
#include "frameworks/torch/nn/sync_batch_norm.h"              // IWYU pragma: export
#include "frameworks/torch/optimizers/fused_adamw.h"          // IWYU pragma: export
#include "frameworks/torch/optimizers/lamb.h"                 // IWYU pragma: export
#include "frameworks/torch/optimizers/lars.h"                 // IWYU pragma: export
#include "frameworks/torch/optimizers/radam.h"                // IWYU pragma: export
#include "frameworks/torch/reducer/distributed_optimizer.h"   // IWYU pragma: export
#include "frameworks/torch/reducer/gradient_reducer.h"        // IWYU pragma: export
#include "frameworks/torch/sharding/sharded_model.h"          // IWYU pragma: export
#include "frameworks/torch/sharding/sharded_optimizer.h"      // IWYU pragma: export
#include "frameworks/torch/state/checkpoint.h"                // IWYU pragma: export
#include "frameworks/torch/state/objects.h"                   // IWYU pragma: export
#include "frameworks/torch/state/parameters.h"                // IWYU pragma: export
#include "ops/setup/init.h"                                   // IWYU pragma: export
