// SPDX-License-Identifier: Apache-2.0
// Training steps as CUDA graphs.
#pragma once

#include <functional>

#include "rueda/rueda.h"

namespace rueda {

// As rueda/rueda.h's, on the device that is current on this thread:
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
// on a stream that is not the default one, after some steps that were not captured. Whatever is not
// the device's, such as a learning rate that is a number, stays as it was then. A rank that is lost ends the
// graphs of all others; the next operation names it.
void capture(const std::function<void()>& body, Scope scope = {});

}  // namespace rueda
