// SPDX-License-Identifier: Apache-2.0
// The loop around a training function.
#pragma once

#include <functional>

#include "rueda/torch/elastic/state.h"

namespace rueda::elastic {

// Calls `function`, and calls it again after each failure of an operation and each change of workers:
//
//   rueda::elastic::State state({{"model", model}, {"optimizer", optimizer}, {"step", step}});
//   rueda::elastic::run(state, [&] {
//     for (; step < steps; state.commit()) train_once(step++);
//   });
//
// Before each call all ranks get the state of the rank with the most commits. After a failure every rank
// restores its last commit. After WorkersChanged the state stays as it is. Then the ranks form the job anew,
// and callbacks of the State run. In an elastic job (ruedarun --min-np) it has the ranks that are left, and
// those that wait to join. There no collective operation comes before run(), and everything that is
// collective in its making is made in `function`. A DistributedOptimizer and a GradientReducer may come
// before.
//
// A program may call run() several times. A worker that joins when the others have ended the first call
// returns from it at once. So no collective operation comes between the calls.
//
// Collective. Throws LeftJob if this process was to leave the job, as its host is to go: it ends with status 0
// then. Throws NotInitialized if the job has gone on without this process, PeerLost or BackendError if no
// generation can be formed here. Throws the failure if operations fail three times, and meanwhile nothing was
// committed and no worker came or went. Throws InvalidArgument, and everything else that `function` throws,
// since the same call would fail again. In a job that is not elastic a failure without a loss restores all
// ranks. After a loss the exception says that training cannot go on.
void run(State& state, const std::function<void()>& function);

}  // namespace rueda::elastic
