// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <span>

#include "ops/cuda/batch_copy_body.h"
#include "ops/cuda/cuda_check.h"
#include "ops/cuda/launch_batch_copy.h"

namespace rueda {
namespace {

constexpr int kMostPieces = 128;        // of one launch
constexpr int kThreads = 256;           // of a block
constexpr std::int64_t kBlocks = 1024;  // for all pieces of a launch, unless they are more

// By value in the kernel's parameters: no copy to the device comes before it.
struct Parameters {
  CopyPiece pieces[kMostPieces];
  double factor;
};
static_assert(sizeof(Parameters) <= 4096, "what any device takes as parameters");

template <class Body>
__global__ void __launch_bounds__(kThreads) batch_copy(const __grid_constant__ Parameters parameters) {
  Body::run(parameters.pieces[blockIdx.y], parameters.factor,
            static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
            static_cast<std::int64_t>(gridDim.x) * blockDim.x);
}

template <class Body>
void launch(std::span<const CopyPiece> pieces, std::int64_t scale, double factor, cudaStream_t stream) {
  Parameters parameters;
  parameters.factor = factor;
  std::int64_t most = 1;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    parameters.pieces[i] = pieces[i];
    parameters.pieces[i].elements *= scale;
    most = std::max(most, parameters.pieces[i].elements);
  }
  const auto count = static_cast<std::int64_t>(pieces.size());
  const std::int64_t useful = (most / Body::kLanes + kThreads) / kThreads;  // blocks for the largest piece
  const std::int64_t blocks = std::clamp<std::int64_t>(useful, 1, std::max<std::int64_t>(1, kBlocks / count));
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(count));
  batch_copy<Body><<<grid, kThreads, 0, stream>>>(parameters);
  check(cudaGetLastError(), "launching batch_copy");
}

}  // namespace

void launch_batch_copy(const BatchCopy& copy, DeviceStream stream) {
  choose_copy(copy, [&]<class Body>(std::int64_t scale) {
    for (std::span<const CopyPiece> rest = copy.pieces; !rest.empty();) {
      const std::size_t count = std::min<std::size_t>(rest.size(), kMostPieces);
      launch<Body>(rest.first(count), scale, copy.factor, static_cast<cudaStream_t>(stream));
      rest = rest.subspan(count);
    }
  });
}

}  // namespace rueda
