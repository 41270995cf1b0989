// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_reducer.h"

#include "frameworks/torch/gradient_sync.h"

namespace rueda {

GradientReducer::GradientReducer(const std::vector<at::Tensor>& parameters, const DistributedOptions& options,
                                 const Scope& scope)
    : sync_(std::make_unique<GradientSync>(parameters, options, scope)) {}

GradientReducer::~GradientReducer() = default;

void GradientReducer::synchronize() { sync_->synchronize(); }

GradientReducer::Skip GradientReducer::skip_synchronize() {
  sync_->show_local_gradients();
  return Skip(*this);
}

void GradientReducer::before_step() {
  if (skips_ > 0) {
    sync_->check_not_reducing("step() under skip_synchronize()");
    sync_->show_local_gradients();
  } else {
    sync_->synchronize();
  }
  sync_->begin_step();
}

void GradientReducer::before_zero_grad() {
  sync_->check_not_reducing("zero_grad()");
  sync_->begin_step();
}

void GradientReducer::check_parameters(const std::vector<at::Tensor>& parameters) const {
  sync_->check_parameters(parameters);
}

double GradientReducer::wait_seconds() const { return sync_->wait_seconds(); }

}  // namespace rueda
