// SPDX-License-Identifier: Apache-2.0
// All of Rueda for LibTorch programs.
#pragma once

#include "rueda/rueda.h"                                 // IWYU pragma: export
#include "rueda/torch/collectives/capture.h"             // IWYU pragma: export
#include "rueda/torch/collectives/empty.h"               // IWYU pragma: export
#include "rueda/torch/collectives/grouped_operations.h"  // IWYU pragma: export
#include "rueda/torch/collectives/operations.h"          // IWYU pragma: export
#include "rueda/torch/data/average_metric.h"             // IWYU pragma: export
#include "rueda/torch/data/samplers.h"                   // IWYU pragma: export
#include "rueda/torch/elastic/run.h"                     // IWYU pragma: export
#include "rueda/torch/elastic/sampler.h"                 // IWYU pragma: export
#include "rueda/torch/elastic/state.h"                   // IWYU pragma: export
#include "rueda/torch/local_sgd/sync_schedule.h"         // IWYU pragma: export
#include "rueda/torch/nn/distributed_model.h"            // IWYU pragma: export
#include "rueda/torch/nn/sync_batch_norm.h"              // IWYU pragma: export
#include "rueda/torch/optimizers/fused_adamw.h"          // IWYU pragma: export
#include "rueda/torch/optimizers/lamb.h"                 // IWYU pragma: export
#include "rueda/torch/optimizers/lars.h"                 // IWYU pragma: export
#include "rueda/torch/optimizers/radam.h"                // IWYU pragma: export
#include "rueda/torch/reducer/distributed_optimizer.h"   // IWYU pragma: export
#include "rueda/torch/reducer/gradient_reducer.h"        // IWYU pragma: export
#include "rueda/torch/sharding/sharded_model.h"          // IWYU pragma: export
#include "rueda/torch/sharding/sharded_optimizer.h"      // IWYU pragma: export
#include "rueda/torch/state/checkpoint.h"                // IWYU pragma: export
#include "rueda/torch/state/objects.h"                   // IWYU pragma: export
#include "rueda/torch/state/parameters.h"                // IWYU pragma: export
