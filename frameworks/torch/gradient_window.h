// SPDX-License-Identifier: Apache-2.0
// The places in shared memory at which gradients are reduced.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"

namespace rueda {

// Purpose: one block of memory that all ranks of the host reach, with a place for the gradient of each
// parameter, in the order in which backward brought them in the step before. A gradient is copied to its
// place when it comes, still hot in the cache, and .grad is that place from then on: it is reduced there and
// nobody unpacks. Belongs to a GradientSync, which guards it.
//
// Autograd makes the gradient of each backward pass anew unless .grad is defined; then it adds to the place.
// A place that somebody else still holds (a .grad that was kept) is left alone: that step's gradient stays
// where autograd made it, and is reduced there.
class GradientWindow {
 public:
  // `sums`: the places are for sums of gradients (pairwise_sum.h), not for gradients.
  GradientWindow(std::vector<at::Tensor> parameters, bool sums)
      : parameters_(std::move(parameters)), sums_(sums), seen_(parameters_.size()) {}

  // The gradient of parameter `index` has come.
  void saw(std::size_t index) { seen_[index] = ++clock_; }
  // The step is over, no gradient is on its way: gives places where there are none that fit.
  void end_step(Runtime& runtime);

  // `gradient` times `factor` in the place of its parameter; the same tensor if it lies there, or cannot.
  at::Tensor place(std::size_t index, const at::Tensor& gradient, double factor);
  // Zeroes in the place of the parameter, or of their own.
  at::Tensor zeros(std::size_t index);

 private:
  at::ScalarType type_of(const at::Tensor& parameter) const;
  bool is_free(std::size_t index) const;
  void lay_out(Runtime& runtime);

  const std::vector<at::Tensor> parameters_;
  const bool sums_;
  std::vector<std::uint64_t> seen_;  // when each came last; 0: never
  std::uint64_t clock_ = 0;
  std::shared_ptr<TensorMemory> memory_;  // where the places are
  std::vector<at::Tensor> places_;        // by parameter; empty: none yet
  bool fits_ = false;                     // places_ are of the parameters' types and of the present job
};

}  // namespace rueda
