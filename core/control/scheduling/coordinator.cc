// SPDX-License-Identifier: Apache-2.0
#include "core/control/scheduling/coordinator.h"

#include <memory>
#include <utility>

namespace rueda {

Coordinator::Coordinator(FusionPlanner planner, Settings settings)
    : planner_(std::move(planner)), settings_(settings), keeper_(settings.cache_least) {}

void Coordinator::ready(const SharedRequest& request, const RankSet& without, Time now) {
  if (tuner_ && tuner_->ready(request, now)) {
    const TuningParameters& parameters = tuner_->parameters();
    planner_.use(parameters);
    settings_.linger = parameters.linger;
    settings_.fusion_threshold = parameters.fusion_threshold;
  }
  if (ready_.empty()) first_ready_ = now;
  add_ready(request, without);
  for (const Request& other : request->others) add_ready(SharedRequest(request, &other), without);
}

void Coordinator::add_ready(SharedRequest request, const RankSet& without) {
  ready_bytes_ += bytes_of(*request);
  const bool measured = request->measure;
  if (!without.empty() && may_have_a_place(*request) && !request->elsewhere) {
    // Nothing of those is in its place, where they may hold what they had.
    Request apart = *request;
    apart.elsewhere = true;
    request = std::make_shared<const Request>(std::move(apart));
  }
  ready_.emplace_back(std::move(request), measured ? without : RankSet());
}

void Coordinator::refuse(SharedRequest request, Status status) {
  refused_.push_back(planner_.refuse(std::move(request), std::move(status)));
}

std::vector<Plan> Coordinator::call(Time now, bool others_on_their_way) {
  if (tuner_) tuner_->looked(others_on_their_way);
  std::vector<Plan> plans = std::exchange(refused_, {});
  const bool lingers = others_on_their_way && now < first_ready_ + settings_.linger &&
                       ready_bytes_ < settings_.fusion_threshold;
  if (!ready_.empty() && !lingers) {
    ready_bytes_ = 0;
    std::vector<ReadyRequest> ready = std::exchange(ready_, {});
    std::vector<Plan> fused = planner_.fuse(std::move(ready));
    for (Plan& plan : fused) {
      if (plan.status.ok()) keeper_.give_ids(plan);
    }
    append(plans, std::move(fused));
    ready.clear();
    ready_ = std::move(ready);  // its room
  }
  return plans;
}

Plan Coordinator::decide(SharedRequest request, std::int64_t result) {
  Plan plan = planner_.decide(std::move(request), result);
  if (plan.operation == Operation::remove_process_set)
    keeper_.end_set(static_cast<ProcessSetId>(plan.root), plan);
  return plan;
}

std::optional<Time> Coordinator::due() const {
  if (ready_.empty()) return std::nullopt;
  return first_ready_ + settings_.linger;
}

}  // namespace rueda
