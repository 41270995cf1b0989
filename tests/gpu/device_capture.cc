// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/device_capture.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/base/error.h"
#include "ops/cuda/cuda_check.h"
#include "rueda/rueda.h"

namespace rueda {
namespace {

Submission sum_of(const std::shared_ptr<std::byte>& memory, std::int64_t elements, const Device& device,
                  cudaStream_t stream) {
  Submission submission;
  submission.request.name = "captured";
  submission.request.shape = {elements};
  submission.request.device = DeviceKind::cuda;
  submission.output = {memory.get(), DataType::float32, {elements}, {}};
  submission.input = submission.output;
  submission.device = device.number();
  submission.stream = stream;
  submission.owner = memory;
  return submission;
}

// Purpose: a graph and what runs it. Lives on the caller's stack.
struct Graph {
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    if (runnable != nullptr) cudaGraphExecDestroy(runnable);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
};

}  // namespace

void check_device_capture(Runtime& runtime, Device& device) {
  constexpr std::int64_t kElements = 100'000;
  device.make_current();
  const std::unique_ptr<DeviceQueue> queue = device.make_queue();
  const auto stream = static_cast<cudaStream_t>(queue->stream());
  const std::vector<float> ones(kElements, 1.0f);
  const std::shared_ptr<std::byte> memory = device.memory(kElements * sizeof(float));
  check(cudaMemcpy(memory.get(), ones.data(), kElements * sizeof(float), cudaMemcpyDefault), "cudaMemcpy");
  Graph made;
  capture(
      [&] {
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
        const Handle handle = runtime.submit(sum_of(memory, kElements, device, stream));
        const Status status = handle.wait_status();
        if (status.ok()) handle.fence()->hold_back(stream);
        const cudaError_t ended = cudaStreamEndCapture(stream, &made.graph);
        throw_if_error(status);
        check(ended, "cudaStreamEndCapture");
      },
      device.number(), runtime);
  check(cudaGraphInstantiate(&made.runnable, made.graph, 0), "cudaGraphInstantiate");
  float expected = 1.0f;
  for (int run = 0; run < 3; ++run) {
    check(cudaGraphLaunch(made.runnable, stream), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    std::vector<float> found(kElements);
    check(cudaMemcpy(found.data(), memory.get(), kElements * sizeof(float), cudaMemcpyDefault), "cudaMemcpy");
    expected *= static_cast<float>(runtime.topology().size);
    if (std::ranges::count(found, expected) != kElements)
      throw std::runtime_error(
          fmt::format("run {} of a graph: {} where {} is right", run, found.front(), expected));
  }
}

}  // namespace rueda
