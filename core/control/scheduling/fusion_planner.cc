// SPDX-License-Identifier: Apache-2.0
#include "core/control/scheduling/fusion_planner.h"

#include <algorithm>

#include "core/base/operation_traits.h"

namespace rueda {
namespace {

void append(Plan& plan, SharedRequest request) {
  plan.tensors.push_back({0, true, std::move(request)});
  assign_offset(plan, plan.tensors.back());
}

Plan plan_for(ReadyRequest ready) {
  Plan plan;
  take_terms(plan, *ready.request);
  plan.joined = std::move(ready.joined);
  append(plan, std::move(ready.request));
  return plan;
}

}  // namespace

bool may_share_buffer(const Request& request) {
  return traits(request.operation).fusable && request.compression != Compression::topk;
}

bool FusionPlanner::fits(const Plan& plan, const ReadyRequest& ready) const {
  const Request& request = *ready.request;
  return shares_terms(plan, request) && plan.joined == ready.joined &&
         plan.tensors.front().request->elsewhere == request.elsewhere &&
         plan.buffer_bytes + fused_bytes(request) <= parameters_.fusion_threshold;
}

std::vector<Plan> FusionPlanner::fuse(std::vector<ReadyRequest>&& ready) {
  std::vector<Plan> plans;
  for (ReadyRequest& each : ready) {
    auto open = plans.end();
    if (may_share_buffer(*each.request)) {
      open = std::ranges::find_if(plans, [&](const Plan& plan) { return fits(plan, each); });
    }
    if (open != plans.end()) {
      append(*open, std::move(each.request));
    } else {
      plans.push_back(plan_for(std::move(each)));
    }
  }
  for (Plan& plan : plans) {
    plan.chunk_bytes = parameters_.chunk_bytes;
    const bool large = second_backend_ && plan.buffer_bytes > parameters_.route_bytes;
    plan.backend = large ? second_backend_(plan) : first_backend_(plan);
  }
  return plans;
}

Plan FusionPlanner::refuse(SharedRequest request, Status status) {
  Plan plan = plan_for(std::move(request));
  plan.chunk_bytes = parameters_.chunk_bytes;
  plan.status = std::move(status);
  return plan;
}

Plan FusionPlanner::decide(SharedRequest request, std::int64_t result) {
  Plan plan = plan_for(std::move(request));
  plan.chunk_bytes = parameters_.chunk_bytes;
  plan.result = result;
  return plan;
}

}  // namespace rueda
