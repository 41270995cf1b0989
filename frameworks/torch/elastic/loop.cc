// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/elastic/loop.h"

#include "core/base/error.h"
#include "frameworks/torch/reducer/generations.h"

namespace rueda::elastic {

void loop(State& state, const std::function<void()>& function, const JobSteps& job) {
  while (true) {
    std::optional<Error> failure;
    try {
      job.synchronise();
      const Generations::InRun in_run;
      function();
      return state.check();
    } catch (const WorkersChanged&) {
    } catch (const Error& error) {
      if (!may_succeed_later(error)) throw;
      failure = error;
    }
    // Before restore(): operations in flight may write into the objects until the job has ended.
    job.begin_again(failure);
    if (failure)
      state.restore();
    else
      state.keep_uncommitted();
    state.ranks_changed();
  }
}

}  // namespace rueda::elastic
