// SPDX-License-Identifier: Apache-2.0
// The loop around a training function, for any kind of job.
#pragma once

#include <functional>
#include <optional>

#include "rueda/error.h"
#include "rueda/torch/elastic/state.h"

namespace rueda::elastic {

// The steps of a job around the function, for loop().
struct JobSteps {
  // Before each call of the function: gives all ranks the same state. Collective.
  std::function<void()> synchronise;
  // All ranks leave the job and form a new one. `failure`: the reason, unless workers have come or gone.
  std::function<void(const std::optional<Error>& failure)> begin_again;
};

// Calls `function` until it returns, as run() says.
void loop(State& state, const std::function<void()>& function, const JobSteps& job);

}  // namespace rueda::elastic
