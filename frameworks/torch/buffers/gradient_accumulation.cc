// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/buffers/gradient_accumulation.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "frameworks/torch/buffers/pairwise_sum.h"

namespace rueda {
namespace {

// Purpose: leaves the sum to autograd.
class ByAutograd final : public GradientAccumulation {
 public:
  explicit ByAutograd(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}

  bool is_sequential() const override { return false; }
  void add(std::size_t /*index*/, int /*pass*/) override {}
  bool holds(std::size_t /*index*/) const override { return false; }
  at::Tensor take(std::size_t index) override { return reducible(parameters_[index].grad()); }
  void show(std::size_t index, const at::Tensor& gradient) const override {
    at::Tensor& grad = parameters_[index].mutable_grad();
    if (!gradient.is_same(grad)) grad = gradient;
  }
  at::Tensor result(std::size_t /*index*/, const at::Tensor& reduced) const override { return reduced; }
  void reset() override {}

 private:
  const std::vector<at::Tensor> parameters_;
};

// Purpose: takes each pass's gradient out of .grad and adds them by a balanced tree.
class InFixedOrder final : public GradientAccumulation {
 public:
  InFixedOrder(int passes, std::vector<at::Tensor> parameters)
      : passes_(passes), parameters_(std::move(parameters)), sums_(parameters_.size()) {}

  bool is_sequential() const override { return true; }
  void add(std::size_t index, int pass) override {
    const at::NoGradGuard no_grad;
    at::Tensor gradient = reducible(std::exchange(parameters_[index].mutable_grad(), at::Tensor()));
    const bool alone = gradient.storage().use_count() <= kHoldersInAHook;  // the sum is made in its memory
    sums_[index].add(pass, alone ? std::move(gradient) : gradient.clone());
  }
  bool holds(std::size_t index) const override { return sums_[index].passes() > 0; }
  // A gradient in .grad beside the passes was put there by hand, or by passes that went unheard.
  at::Tensor take(std::size_t index) override {
    const at::Tensor& grad = parameters_[index].grad();
    at::Tensor sum = sums_[index].take(passes_);
    if (!grad.defined()) return sum;
    at::Tensor other = reducible(grad).to(sum_type(grad.scalar_type()));
    return sum.defined() ? sum.add_(other) : other;
  }
  void show(std::size_t index, const at::Tensor& gradient) const override {
    const at::Tensor& parameter = parameters_[index];
    const bool fits = gradient.scalar_type() == parameter.scalar_type();
    parameter.mutable_grad() = fits ? gradient : at::Tensor();
  }
  at::Tensor result(std::size_t index, const at::Tensor& reduced) const override {
    return reduced.to(parameters_[index].scalar_type());
  }
  void reset() override {
    for (PairwiseSum& sum : sums_) sum.reset();
  }

 private:
  const int passes_;
  const std::vector<at::Tensor> parameters_;
  std::vector<PairwiseSum> sums_;
};

}  // namespace

at::Tensor reducible(const at::Tensor& gradient) {
  if (gradient.layout() == at::kSparse) return gradient.coalesce().to_dense();
  if (gradient.layout() != at::kStrided) return gradient.to_dense();
  if (at::has_internal_overlap(gradient) == at::MemOverlap::Yes) return gradient.contiguous();
  return gradient;
}

std::unique_ptr<GradientAccumulation> make_accumulation(ReductionOrder order, int passes,
                                                        std::vector<at::Tensor> parameters) {
  if (order == ReductionOrder::fixed && passes > 1)
    return std::make_unique<InFixedOrder>(passes, std::move(parameters));
  return std::make_unique<ByAutograd>(std::move(parameters));
}

}  // namespace rueda
