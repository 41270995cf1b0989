// SPDX-License-Identifier: Apache-2.0
// The whole of Rueda for LibTorch programs: one include.
#pragma once

#include "core/rueda.h"                               // IWYU pragma: export
#include "frameworks/torch/average_metric.h"          // IWYU pragma: export
#include "frameworks/torch/capture.h"                 // IWYU pragma: export
#include "frameworks/torch/checkpoint.h"              // IWYU pragma: export
#include "frameworks/torch/distributed_model.h"       // IWYU pragma: export
#include "frameworks/torch/distributed_optimizer.h"   // IWYU pragma: export
#include "frameworks/torch/empty.h"                   // IWYU pragma: export
#include "frameworks/torch/gradient_reducer.h"        // IWYU pragma: export
#include "frameworks/torch/grouped_operations.h"      // IWYU pragma: export
#include "frameworks/torch/objects.h"                 // IWYU pragma: export
#include "frameworks/torch/operations.h"              // IWYU pragma: export
#include "frameworks/torch/optimizers/fused_adamw.h"  // IWYU pragma: export
#include "frameworks/torch/optimizers/lamb.h"         // IWYU pragma: export
#include "frameworks/torch/optimizers/lars.h"         // IWYU pragma: export
#include "frameworks/torch/optimizers/radam.h"        // IWYU pragma: export
#include "frameworks/torch/parameters.h"              // IWYU pragma: export
#include "frameworks/torch/samplers.h"                // IWYU pragma: export
#include "frameworks/torch/sharded_model.h"           // IWYU pragma: export
#include "frameworks/torch/sharded_optimizer.h"       // IWYU pragma: export
#include "frameworks/torch/sync_batch_norm.h"         // IWYU pragma: export
#include "frameworks/torch/sync_schedule.h"           // IWYU pragma: export
#include "ops/init.h"                                 // IWYU pragma: export
