// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_state.h"

#include "core/control/messages/rank_set_message.h"

namespace rueda {

NcclState::Key NcclState::key_of(const RankSet& members, NcclReach reach) {
  Writer writer;
  write(writer, members);
  return {writer.take(), reach};
}

NcclGroup& NcclState::group(const RankSet& members, NcclReach reach) {
  std::unique_ptr<NcclGroup>& group = groups_[key_of(members, reach)];
  if (!group) group = std::make_unique<NcclGroup>(own_, members, rank_, reach);
  return *group;
}

bool NcclState::refused(const RankSet& members, NcclReach reach) const {
  const auto found = groups_.find(key_of(members, reach));
  return found != groups_.end() && found->second->stage() == NcclGroup::Stage::refused;
}

void NcclState::tend(bool failed) {
  for (const auto& [key, group] : groups_) group->tend(failed);
}

}  // namespace rueda
