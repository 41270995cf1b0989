// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_backend.h"

#include "ops/nccl/nccl_launch.h"
#include "ops/nccl/nccl_work.h"

namespace rueda {

NcclGroup& NcclState::group(const RankSet& members) {
  std::unique_ptr<NcclGroup>& group = groups_[members];
  if (!group) group = std::make_unique<NcclGroup>(own_, members, rank_);
  return *group;
}

bool NcclState::refused(const RankSet& members) const {
  const auto found = groups_.find(members);
  return found != groups_.end() && found->second->stage() == NcclGroup::Stage::refused;
}

void NcclState::tend(bool failed) {
  for (const auto& [members, group] : groups_) group->tend(failed);
}

bool NcclBackend::can_run(const Plan& plan) const {
  return plan.members->count() > 1 && nccl_can_run(plan) && link_.can_run(plan) && state_->usable() &&
         !state_->refused(*plan.members);
}

std::unique_ptr<Work> NcclBackend::start(const Plan& plan, std::span<Entry> entries) {
  return std::make_unique<NcclWork>(plan, entries, NcclWork::Place{link_, *state_, *sides_, staged_});
}

}  // namespace rueda
