// SPDX-License-Identifier: Apache-2.0
// A whole run of a trainer, from the meeting of the ranks to the results.
#pragma once

#include "examples/lib/training/options/options.h"
#include "examples/lib/training/task.h"

namespace rueda::examples {

// Calls rueda::init(), agrees on the settings, resumes if asked to, trains with evaluations and checkpoints,
// evaluates, and writes model, summary and losses; then rueda::shutdown(). Returns false if SIGTERM ended it
// early. Throws the first error. Main thread.
bool run_training(Task& task, const TrainOptions& options);

}  // namespace rueda::examples
