// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/delayed_metrics.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace rueda::examples {

DelayedMetrics::DelayedMetrics(const at::Tensor& values) : values_(values) {
  if (values.is_cpu()) return;
  values_ = at::empty(values.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
  values_.copy_(values, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl guard(values.device().type());
  there_.emplace(values.device().type());
  there_->record(guard.getStream(values.device()));
}

std::vector<double> DelayedMetrics::read() const {
  if (!values_.defined()) return {};
  if (there_) there_->synchronize();
  const at::Tensor flat = values_.contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

}  // namespace rueda::examples
