// SPDX-License-Identifier: Apache-2.0
#include "core/control/caller.h"

#include <fmt/format.h>

#include <utility>

#include "core/control/autotuner.h"

namespace rueda {

Caller::Caller(Planner planner, Settings settings)
    : planner_(std::move(planner)), settings_(settings), keeper_(settings.cache_least) {}

Caller::~Caller() = default;

void Caller::tune(std::unique_ptr<Autotuner> tuner) { tuner_ = std::move(tuner); }

void Caller::ready(ReadyRequest ready, Time now) {
  if (ready.request->group_size > 0) return gather(std::move(ready), {}, now);
  add_ready(std::move(ready), now);
}

void Caller::refuse(SharedRequest request, Status status) {
  if (request->group_size > 0) return gather(std::move(request), std::move(status), {});
  refuse_alone(std::move(request), std::move(status));
}

void Caller::gather(ReadyRequest ready, Status status, Time now) {
  const Request& request = *ready.request;
  const std::size_t size = request.group_size;
  const auto place = groups_.try_emplace({request.process_set, request.group}).first;
  Group& group = place->second;
  group.requests.push_back(std::move(ready));
  if (group.status.ok()) group.status = std::move(status);
  if (group.requests.size() < size) return;
  auto whole = groups_.extract(place);
  for (ReadyRequest& member : whole.mapped().requests) {
    if (whole.mapped().status.ok()) {
      add_ready(std::move(member), now);
    } else {
      refuse_alone(std::move(member.request), whole.mapped().status);
    }
  }
}

void Caller::refuse_group(ProcessSetId set, const std::string& name, const Status& status) {
  auto group = groups_.extract({set, name});
  if (group.empty()) return;
  for (ReadyRequest& member : group.mapped().requests) refuse_alone(std::move(member.request), status);
}

void Caller::give_up_groups() {
  for (auto& [key, group] : std::exchange(groups_, {})) {
    const Status status = Status::shut_down(
        fmt::format("group '{}': {} of its {} operations were submitted before every rank shut down.",
                    key.second, group.requests.size(), group.requests.front().request->group_size));
    for (ReadyRequest& member : group.requests) refuse_alone(std::move(member.request), status);
  }
}

void Caller::forget_set(ProcessSetId set) {
  std::erase_if(groups_, [&](const auto& group) { return group.first.first == set; });
}

void Caller::add_ready(ReadyRequest ready, Time now) {
  if (tuner_ && tuner_->ready(ready.request, now)) {
    const Knobs& knobs = tuner_->knobs();
    planner_.use(knobs);
    settings_.linger = knobs.linger;
    settings_.fusion_threshold = knobs.fusion_threshold;
  }
  if (ready_.empty()) first_ready_ = now;
  ready_bytes_ += bytes_of(*ready.request);
  ready_.push_back(std::move(ready));
}

void Caller::refuse_alone(SharedRequest request, Status status) {
  refused_.push_back(planner_.refuse(std::move(request), std::move(status)));
}

std::vector<Plan> Caller::call(Time now, bool others_on_their_way) {
  if (tuner_) tuner_->looked(others_on_their_way);
  std::vector<Plan> plans = std::exchange(refused_, {});
  const bool lingers = others_on_their_way && now < first_ready_ + settings_.linger &&
                       ready_bytes_ < settings_.fusion_threshold;
  if (!ready_.empty() && !lingers) {
    for (Plan& plan : planner_.fuse(ready_)) {
      keeper_.give_ids(plan);
      plans.push_back(std::move(plan));
    }
    ready_.clear();
    ready_bytes_ = 0;
  }
  return plans;
}

Plan Caller::decide(SharedRequest request, std::int64_t result) {
  Plan plan = planner_.decide(std::move(request), result);
  if (plan.operation == Operation::remove_process_set)
    keeper_.end_set(static_cast<ProcessSetId>(plan.root), plan);
  return plan;
}

std::optional<Time> Caller::due() const {
  if (ready_.empty()) return std::nullopt;
  return first_ready_ + settings_.linger;
}

}  // namespace rueda
