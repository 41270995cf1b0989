// SPDX-License-Identifier: Apache-2.0
#include "core/control/scheduling/coordinator.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace rueda {
namespace {

// Such a request shares no buffer, so it gains nothing by lingering. A group stays together.
bool is_alone(const Request& request) {
  return !may_share_buffer(request) && request.others.empty() && request.follows.empty();
}

}  // namespace

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
  if (is_alone(*request)) {
    ++alone_;
  } else {
    ready_bytes_ += bytes_of(*request);
  }
  const bool measured = request->measure;
  if (!without.empty() && may_use_window(*request) && !request->elsewhere) {
    // Nothing of those is in its slot, where they may hold what they had.
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
  if (ready_.empty() || (lingers && alone_ == 0)) return plans;
  std::vector<ReadyRequest> ready = lingers ? take_alone() : std::exchange(ready_, {});
  call_ready(std::move(ready), plans);
  alone_ = 0;
  if (lingers) return plans;
  ready_bytes_ = 0;
  ready.clear();
  ready_ = std::move(ready);  // its room
  return plans;
}

void Coordinator::call_ready(std::vector<ReadyRequest>&& ready, std::vector<Plan>& plans) {
  std::vector<Plan> fused = planner_.fuse(std::move(ready));
  for (Plan& plan : fused) {
    if (plan.status.ok()) keeper_.give_ids(plan);
  }
  append(plans, std::move(fused));
}

std::vector<ReadyRequest> Coordinator::take_alone() {
  const auto lingers = [](const ReadyRequest& each) { return !is_alone(*each.request); };
  const auto first = std::ranges::stable_partition(ready_, lingers).begin();
  std::vector<ReadyRequest> taken(std::make_move_iterator(first), std::make_move_iterator(ready_.end()));
  ready_.erase(first, ready_.end());
  return taken;
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
