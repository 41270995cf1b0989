// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/root_state.h"

#include <utility>

namespace rueda {
namespace {

FusionPlanner::ChooseBackend with_members(const ProcessSets& sets, FusionPlanner::ChooseBackend choose) {
  if (!choose) return {};
  return [&sets, choose = std::move(choose)](Plan& plan) {
    plan.members = sets.find(plan.process_set)->members;
    return choose(plan);
  };
}

}  // namespace

RootState::RootState(const ProcessSets& sets, ProcessSetId next_set, Settings settings)
    : full_join(settings.full_join), next_set(next_set) {
  const FusionPlanner::ChooseBackend first = with_members(sets, std::move(settings.choose_backend));
  const FusionPlanner::ChooseBackend second = with_members(sets, std::move(settings.second_backend));
  coordinator =
      std::make_unique<Coordinator>(FusionPlanner(settings.parameters, first, second), settings.coordinator);
  if (!settings.tuning) return;
  settings.tuning->defaults = settings.parameters;
  tuner = std::make_unique<Autotuner>(*settings.tuning, first, second);
  coordinator->tune(tuner.get());
}

void RootState::number(std::vector<Plan>& plans, std::uint64_t last) {
  for (Plan& plan : plans) {
    plan.number = ++last;
    plan.area = next_area;
    next_area = static_cast<std::uint8_t>((next_area + 1) % kAreas);
  }
}

}  // namespace rueda
