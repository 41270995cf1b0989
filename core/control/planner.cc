// SPDX-License-Identifier: Apache-2.0
#include "core/control/planner.h"

#include <algorithm>

namespace rueda {
namespace {

std::int64_t bytes_of(const Request& request) {
  return element_count(request.shape) * static_cast<std::int64_t>(size_of(request.dtype));
}

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kFusionAlignment - 1) / kFusionAlignment * kFusionAlignment;
}

void append(Plan& plan, const Request& request) {
  const bool ragged = traits(request.operation).ragged_first_axis;
  plan.tensors.push_back({request.name, ragged ? 0 : element_count(request.shape), plan.buffer_bytes});
  if (!ragged) plan.buffer_bytes += aligned(bytes_of(request));
}

Plan plan_for(const Request& request) {
  Plan plan;
  plan.operation = request.operation;
  plan.dtype = request.dtype;
  plan.reduce_op = request.reduce_op;
  plan.prescale_factor = request.prescale_factor;
  plan.postscale_factor = request.postscale_factor;
  plan.root = request.root;
  append(plan, request);
  return plan;
}

}  // namespace

bool Planner::fits(const Plan& plan, const Request& request) const {
  return plan.operation == request.operation && plan.dtype == request.dtype &&
         plan.reduce_op == request.reduce_op && plan.prescale_factor == request.prescale_factor &&
         plan.postscale_factor == request.postscale_factor &&
         plan.buffer_bytes + aligned(bytes_of(request)) <= fusion_threshold_;
}

std::vector<Plan> Planner::fuse(const std::vector<Request>& ready) {
  std::vector<Plan> plans;
  for (const Request& request : ready) {
    auto open = plans.end();
    if (traits(request.operation).fusable) {
      open = std::ranges::find_if(plans, [&](const Plan& plan) { return fits(plan, request); });
    }
    if (open != plans.end()) {
      append(*open, request);
    } else {
      plans.push_back(plan_for(request));
    }
  }
  for (Plan& plan : plans) {
    plan.number = next_number_++;
    plan.chunk_bytes = chunk_bytes_;
    plan.backend = choose_backend_(plan);
  }
  return plans;
}

Plan Planner::refuse(const std::string& name, Status status) {
  Plan plan;
  plan.number = next_number_++;
  plan.status = std::move(status);
  plan.tensors.push_back({name, 0, 0});
  return plan;
}

}  // namespace rueda
