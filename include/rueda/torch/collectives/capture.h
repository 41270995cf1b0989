// SPDX-License-Identifier: Apache-2.0
// Captures training steps as CUDA graphs.
#pragma once

#include <functional>

#include "rueda/rueda.h"

namespace rueda {

// The same as capture() of rueda/rueda.h, on the current device of this thread:
//
//   at::cuda::CUDAGraph graph;
//   rueda::capture([&] {
//     graph.capture_begin();
//     loss(model, input).backward();  // gradients are reduced in the graph
//     optimizer.step();
//     graph.capture_end();
//   });
//   for (...) {
//     input.copy_(next_batch());
//     graph.replay();  // on every rank; nothing of Rueda runs on the host
//   }
//   torch::cuda::synchronize();
//   graph.reset();  // before shutdown()
//
// Use a stream that is not the default one, and run some steps before. A graph keeps each value of the host
// from its capture, such as a learning rate. A lost rank ends the graphs of all others. The next operation
// then throws PeerLost.
void capture(const std::function<void()>& body, Scope scope = {});

}  // namespace rueda
