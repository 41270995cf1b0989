// SPDX-License-Identifier: Apache-2.0
#include "core/control/caller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/control/autotuner.h"

namespace rueda {

Caller::Caller(Planner planner, Settings settings)
    : planner_(std::move(planner)), settings_(settings), keeper_(settings.cache_least) {}

Caller::~Caller() = default;

void Caller::tune(std::unique_ptr<Autotuner> tuner) { tuner_ = std::move(tuner); }

void Caller::ready(SharedRequest request, Time now) {
  if (request->group_size > 0) return gather(std::move(request), now);
  add_ready(std::move(request), now);
}

// The group that this is to belong to. A name that comes again after its group failed begins a new one.
Caller::Group& Caller::group_of(const Request& request) {
  Group& group = groups_[{request.process_set, request.group}];
  if (group.refused.contains(request.name)) group = {};
  return group;
}

// The last one takes all of them out.
void Caller::gather(SharedRequest request, Time now) {
  Group& group = group_of(*request);
  if (!group.status.ok()) {
    const Status status = group.status;
    fail_group(*request, status);
    return refuse(std::move(request), status);
  }
  const std::size_t size = request->group_size;
  const std::pair key{request->process_set, request->group};
  group.requests.push_back(std::move(request));
  if (group.requests.size() < size) return;
  auto whole = groups_.extract(key);
  for (SharedRequest& member : whole.mapped().requests) add_ready(std::move(member), now);
}

void Caller::fail_group(const Request& member, const Status& status) {
  Group& group = group_of(member);
  if (group.status.ok()) group.status = status;
  group.refused.insert(member.name);
  for (SharedRequest& waiting : std::exchange(group.requests, {})) {
    group.refused.insert(waiting->name);
    refuse(std::move(waiting), group.status);
  }
  if (group.refused.size() >= member.group_size) groups_.erase({member.process_set, member.group});
}

void Caller::give_up_groups() {
  for (auto& [key, group] : std::exchange(groups_, {})) {
    if (group.requests.empty()) continue;
    const Status status = Status::shut_down(
        fmt::format("group '{}': {} of its {} operations were submitted before every rank shut down.",
                    key.second, group.requests.size(), group.requests.front()->group_size));
    for (SharedRequest& member : group.requests) refuse(std::move(member), status);
  }
}

void Caller::forget_set(ProcessSetId set) {
  std::erase_if(groups_, [&](const auto& group) { return group.first.first == set; });
}

bool Caller::idle() const {
  auto waits = [](const auto& group) { return !group.second.requests.empty(); };
  return ready_.empty() && refused_.empty() && std::ranges::none_of(groups_, waits);
}

void Caller::add_ready(SharedRequest request, Time now) {
  if (tuner_ && tuner_->ready(request, now)) {
    const Knobs& knobs = tuner_->knobs();
    planner_.use(knobs);
    settings_.linger = knobs.linger;
    settings_.fusion_threshold = knobs.fusion_threshold;
  }
  if (ready_.empty()) first_ready_ = now;
  ready_bytes_ += bytes_of(*request);
  ready_.push_back(std::move(request));
}

void Caller::refuse(SharedRequest request, Status status) {
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
