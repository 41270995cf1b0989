// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/compression/powersgd.h"

#include <ATen/Parallel.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "frameworks/torch/compression/powersgd_device.h"
#include "frameworks/torch/compression/powersgd_math.h"

namespace rueda {
namespace {

constexpr std::int64_t kRowsTogether = 16;  // at least, for a thread

// `action` with a pointer's type that fits the tensor's.
template <class Action>
void for_type_of(const at::Tensor& tensor, const Action& action) {
  tensor.scalar_type() == at::kFloat ? action(float{}) : action(double{});
}

// Of the types that they have, also where the program is inside of autocast.
at::Tensor product_of(const at::Tensor& a, const at::Tensor& b) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return at::mm(a, b);
}

Reduction unmeasured(Reduction reduction) {
  reduction.measure = false;
  return reduction;
}

}  // namespace

bool pays_at_rank(const at::Tensor& parameter, std::int64_t rank) {
  if (rank == 0 || parameter.dim() < 2 || parameter.numel() == 0) return false;
  if (parameter.scalar_type() != at::kFloat && parameter.scalar_type() != at::kDouble) return false;
  const std::int64_t rows = parameter.size(0), columns = parameter.numel() / rows;
  return rank <= std::min(rows, columns) && 2 * rank * (rows + columns) <= parameter.numel();
}

MakeHook powersgd_hook(std::int64_t rank) {
  return [rank](const HookedParameter& of) { return std::make_unique<PowerSgdReduction>(of, rank); };
}

PowerSgdReduction::PowerSgdReduction(HookedParameter of, std::int64_t rank)
    : of_(std::move(of)), seed_(seed_of(of_.name)), rank_(rank) {}

// False at first, and if the parameter has another shape or type by now.
bool PowerSgdReduction::has_residual() const {
  return residual_.defined() && residual_.sizes() == matrix_.sizes() &&
         residual_.scalar_type() == matrix_.scalar_type();
}

void PowerSgdReduction::begin(const at::Tensor& gradient) {
  gradient_ = gradient;
  // A parameter may have changed since it was given, and need not suit this reduction. It is only reduced, or
  // refused by the other ranks.
  const bool narrow = gradient.scalar_type() != at::kFloat && gradient.scalar_type() != at::kDouble;
  const std::int64_t rows = gradient.dim() > 0 ? gradient.size(0) : 1;
  matrix_ = (narrow ? gradient.to(at::kFloat) : gradient)
                .contiguous()
                .view({rows, gradient.numel() / std::max<std::int64_t>(rows, 1)});
  at::Tensor start = second_of_all_;
  if (has_residual()) {
    matrix_.add_(residual_);
  } else {
    start = at::zeros({rank_, matrix_.size(1)}, matrix_.options());
  }
  if (matrix_.is_cuda()) {
    start = directions_on_device(start, seed_ + steps_);
  } else {
    for_type_of(matrix_, [&]<class T>(T) {
      make_directions(start.mutable_data_ptr<T>(), rank_, matrix_.size(1), seed_ + steps_);
    });
  }
  ++steps_;
  factor_ = product_of(start, matrix_.t());
  first_ = allreduce_async_(factor_, of_.operation, unmeasured(of_.reduction), of_.scope.get());
}

// On a device: waits for the first factor, and submits its orthonormal basis.
void PowerSgdReduction::submit_basis() {
  if (!factor_.is_cuda() || !first_->wait_status().ok()) return;
  const Scope scope = of_.scope.get();
  const Rank owner = scope.rank_at(static_cast<Rank>(seed_ % static_cast<std::uint64_t>(scope.size())));
  if (scope.runtime().topology().rank == owner) make_orthonormal_on_device(factor_);
  first_ = broadcast_async_(factor_, owner, of_.operation + "/basis", scope);
}

// Waits for the first factor, and submits the second.
void PowerSgdReduction::submit_second() {
  failure_ = first_->wait_status();
  if (!failure_.ok()) return;
  if (!factor_.is_cuda()) {
    for_type_of(factor_,
                [&]<class T>(T) { make_orthonormal(factor_.mutable_data_ptr<T>(), rank_, factor_.size(1)); });
  }
  second_of_own_ = product_of(factor_, matrix_);
  second_ = allreduce_async(second_of_own_, of_.operation + "/second", of_.reduction, of_.scope.get());
}

Status PowerSgdReduction::finish() {
  if (!second_) return failure_;
  const Status status = second_->wait_status();
  if (!status.ok()) return status;
  second_of_all_ = second_->output();
  if (!has_residual()) residual_ = at::zeros_like(matrix_);
  put_result();
  if (!matrix_.is_alias_of(gradient_)) gradient_.copy_(matrix_.view(gradient_.sizes()));
  mark_changed(gradient_);
  return status;
}

void PowerSgdReduction::put_result() {
  if (matrix_.is_cuda())
    return reconstruct_on_device(matrix_, residual_, factor_, second_of_own_, second_of_all_);
  const bool finite = at::isfinite(second_of_all_).all().item<bool>();
  for_type_of(matrix_, [&]<class T>(T) { put_result_on_host<T>(finite); });
}

template <class T>
void PowerSgdReduction::put_result_on_host(bool finite) {
  const Factors<T> factors{factor_.const_data_ptr<T>(),
                           second_of_own_.const_data_ptr<T>(),
                           second_of_all_.const_data_ptr<T>(),
                           rank_,
                           matrix_.size(0),
                           matrix_.size(1)};
  T* const values = matrix_.mutable_data_ptr<T>();
  T* const residual = finite ? residual_.mutable_data_ptr<T>() : nullptr;
  at::parallel_for(0, factors.rows, kRowsTogether, [&](std::int64_t begin, std::int64_t end) {
    reconstruct(values, residual, factors, begin, end);
  });
}

double PowerSgdReduction::share_of_square_sum() const {
  return second_ ? second_->share_of_square_sum() : 0.0;
}

void PowerSgdReduction::clear() {
  for (at::Tensor* each : {&gradient_, &matrix_, &factor_, &second_of_own_}) each->reset();
  first_.reset();
  second_.reset();
  failure_ = {};
}

}  // namespace rueda
