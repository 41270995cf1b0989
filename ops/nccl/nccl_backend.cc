// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_backend.h"

#include "ops/nccl/nccl_launch.h"
#include "ops/nccl/nccl_work.h"

namespace rueda {

bool NcclBackend::can_run(const Plan& plan) const {
  return plan.members->count() > 1 && nccl_can_run(plan) && link_.can_run(plan) && state_->usable() &&
         !state_->refused(*plan.members, NcclReach::all);
}

std::unique_ptr<Work> NcclBackend::start(const Plan& plan, std::span<Entry> entries) {
  return std::make_unique<NcclWork>(plan, entries, NcclContext{link_, *state_, *sides_, staged_});
}

}  // namespace rueda
