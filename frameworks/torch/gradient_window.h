// SPDX-License-Identifier: Apache-2.0
// Where gradients are reduced in shared memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "frameworks/torch/gradient_memory.h"

namespace rueda {

// A gradient as memory that can be reduced in place: dense, every element for itself.
at::Tensor reducible(const at::Tensor& gradient);

// Purpose: sees to it that gradients lie where all ranks of the host can reduce them in place. From the
// second step on there is a block of shared memory for each (GradientMemory), in which autograd makes it:
// then nothing is copied. A gradient that came to lie elsewhere (a sum that autograd made of several, one of
// another memory order, one whose block something else of its size has) is copied into a free block when it
// comes, still hot in the cache or when the pass ends, and .grad is that block from then on. Belongs to a
// GradientSync, which guards it.
//
// A block that somebody still holds (a .grad that was kept) is left alone. What was lacking is added at the
// end of the step, up to as much again as gradients need; a gradient without a block is reduced where it
// lies.
class GradientWindow {
 public:
  // `sums`: the blocks are for sums of gradients (pairwise_sum.h), not for gradients. `banks`: of how many
  // steps gradients are there at a time.
  GradientWindow(std::vector<at::Tensor> parameters, bool sums, int banks)
      : parameters_(std::move(parameters)), sums_(sums), banks_(banks) {}

  // In a hook of a backward pass: the next ones are expected on this thread.
  void begin_pass() const {
    if (blocks_) blocks_->serve_this_thread();
  }
  // The step is over, no gradient is on its way: gets blocks where there are none that fit.
  void end_step(Runtime& runtime);

  // `gradient` times `factor`, as memory of its own: in shared memory, the same tensor if it lies there or
  // cannot. It has an owner besides (a gradient that autograd gave to two parameters by views has) if more
  // than `holders` hold its memory: then it is copied.
  at::Tensor place(std::size_t index, const at::Tensor& gradient, double factor, std::size_t holders);
  // After a failure: others may still write what they reduce, so these blocks serve no more.
  void abandon_blocks();
  // Zeroes of the parameter's kind, in shared memory or elsewhere.
  at::Tensor zeros(std::size_t index);

 private:
  at::ScalarType type_of(const at::Tensor& parameter) const;
  std::vector<std::size_t> sizes() const;
  void get_blocks(Runtime& runtime);
  bool add(const std::vector<std::size_t>& sizes, Rank rank);
  at::Tensor in_a_block(std::size_t index, at::ScalarType type);

  const std::vector<at::Tensor> parameters_;
  const bool sums_;
  const int banks_;
  std::shared_ptr<TensorMemory> memory_;    // of the job for which there are blocks
  std::shared_ptr<GradientMemory> blocks_;  // null: none yet, or none to be had
  std::vector<std::size_t> sizes_;          // for which there are blocks; empty: none yet
  std::size_t most_ = 0;                    // bytes that blocks_ may have
  std::vector<std::size_t> lacking_;        // bytes, in this step
};

}  // namespace rueda
