// SPDX-License-Identifier: Apache-2.0
// Blocks of the host's memory for the gradients of a list of parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "frameworks/torch/buffers/gradient_allocator.h"

namespace rueda {

// The type of a parameter's gradients; `sums`: of their sums (pairwise_sum.h).
at::ScalarType gradient_type(const at::Tensor& parameter, bool sums);

// Purpose: for each gradient on the host a block that all ranks of the host reach (GradientAllocator), from
// the first refill() on. The next step adds blocks that a step lacked, up to as much again as gradients need.
// Belongs to a GradientBuffers; guarded with it.
class HostBlocks {
 public:
  // `sums`: blocks are for sums of gradients. `banks`: how many steps have gradients at a time.
  HostBlocks(std::vector<at::Tensor> parameters, bool sums, std::size_t banks)
      : parameters_(std::move(parameters)), sums_(sums), banks_(banks) {}

  // The next passes are expected on the calling thread.
  void serve_this_thread() const {
    if (blocks_) blocks_->serve_this_thread();
  }
  bool contains(const at::Tensor& gradient) const;
  // Returns true if the gradient has one of these blocks.
  bool gave(const at::Tensor& gradient) const { return blocks_ && blocks_->gave(gradient.const_data_ptr()); }
  // Uninitialised memory for the parameter's gradient; undefined where no block is free.
  at::Tensor take(std::size_t index, at::ScalarType type);
  // While no gradient is on its way: gets blocks where there are none that fit.
  void refill(Runtime& runtime);
  // These blocks serve no more.
  void abandon();

 private:
  std::vector<std::size_t> sizes() const;
  void get_blocks(Runtime& runtime);
  bool add(const std::vector<std::size_t>& sizes, Rank rank);

  const std::vector<at::Tensor> parameters_;
  const bool sums_;
  const std::size_t banks_;
  std::shared_ptr<SymmetricMemory> memory_;    // of the job for which there are blocks
  std::shared_ptr<GradientAllocator> blocks_;  // null: none yet, or none to be had
  std::vector<std::size_t> sizes_;             // for which there are blocks; empty: none yet
  std::size_t most_ = 0;                       // bytes that blocks_ may have
  std::vector<std::size_t> lacking_;           // bytes, in this step
};

}  // namespace rueda
