// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/shm_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace rueda {

std::unique_ptr<Work> ShmBackend::start(const Plan& plan, std::span<Entry> entries) {
  owner_.check();
  std::vector<Rank> members;
  for (Rank place = 0; place < plan.members->count(); ++place) members.push_back(plan.members->at(place));
  bool runs = fits(plan) && entries.size() == plan.tensors.size() &&
              std::ranges::all_of(members, [&](Rank member) { return neighbours_->reaches(member); });
  for (std::size_t i = 0; runs && i < entries.size(); ++i)
    runs = plan.operation == Operation::barrier ||
           entries[i].submission.input.elements() == plan.tensors[i].elements();
  if (!runs) {
    throw BackendError(Status::backend_error(
        fmt::format("Plan {}, {} of {} tensors, cannot go through the shared memory of rank {}. Are all "
                    "ranks of one build?",
                    plan.number, to_string(plan.operation), plan.tensors.size(), rank_)));
  }
  if (!one_shot::fits(plan)) {
    const std::size_t area = plan.number % SegmentContents::kAreas;
    return staged_allreduce::start(plan, entries, *neighbours_, rank_, std::move(members), area,
                                   last_area_use_[area], memory_);
  }
  const std::size_t slot = plan.number % slots_;
  return one_shot::start(plan, entries, *neighbours_, rank_, std::move(members), slot, last_use_[slot]);
}

}  // namespace rueda
