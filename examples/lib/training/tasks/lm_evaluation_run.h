// SPDX-License-Identifier: Apache-2.0
// A whole run of evaluate_lm.
#pragma once

#include "examples/lib/training/options/evaluate_lm_options.h"

namespace rueda::examples {

// Reads model and text, calls rueda::init(), evaluates, shows the result and writes the summary, calls
// rueda::shutdown(). Throws the first error, naming the file or flag. Main thread.
void run_lm_evaluation(const EvaluateLmOptions& options);

}  // namespace rueda::examples
