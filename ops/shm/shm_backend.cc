// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/shm_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "ops/collectives/squared_norm.h"
#include "ops/shm/staged_adasum.h"
#include "ops/shm/staged_allreduce.h"
#include "ops/shm/staged_exchange.h"

namespace rueda {

namespace {

// Whether an entry is of the size that the Plan says.
bool fits_plan(const Entry& entry, const Plan& plan, const PlanTensor& tensor) {
  const Submission& submission = entry.submission();
  if (plan.operation == Operation::allreduce || plan.operation == Operation::reducescatter)
    return submission.input.elements() == tensor.elements();
  return plan.operation != Operation::broadcast || submission.output.elements() == tensor.elements();
}

// What this rank's way of storing depends on. Of operations whose ranks differ a Plan knows the size of some
// rank's tensor only.
std::uint64_t bytes_of(const Plan& plan, std::span<const Entry> entries) {
  const bool own = traits(plan.operation).ragged_first_axis;
  return static_cast<std::uint64_t>(own ? entries.front().submission().input.bytes() : plan.buffer_bytes);
}

}  // namespace

bool matches(const Plan& plan, std::span<const Entry> entries) {
  if (entries.size() != plan.tensors.size()) return false;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!fits_plan(entries[i], plan, plan.tensors[i])) return false;
  }
  return true;
}

bool ShmBackend::fits(const Plan& plan) {
  return one_shot::fits(plan) || staged_allreduce::fits(plan) || staged_exchange::fits(plan) ||
         staged_adasum::fits(plan);
}

bool ShmBackend::flows(const Plan& plan) const {
  return !one_shot::fits(plan) && staged_allreduce::fits(plan);
}

std::unique_ptr<Work> ShmBackend::start(const Plan& plan, std::span<Entry> entries) {
  owner_.check();
  const PeerGroup* const crew = crew_of(plan);
  std::unique_ptr<Work> work;
  if (crew != nullptr && matches(plan, entries)) work = make(plan, entries, *crew);
  if (work) return work;
  throw BackendError(Status::backend_error(
      fmt::format("Plan {}, {} of {} tensors, cannot go through the shared memory of rank {}. Are all "
                  "ranks of one build?",
                  plan.number, to_string(plan.operation), plan.tensors.size(), rank_)));
}

const PeerGroup* ShmBackend::crew_of(const Plan& plan) {
  if (members_ == plan.members) return crew_;
  std::vector<Rank> ranks;
  for (Rank place = 0; place < plan.members->count(); ++place) ranks.push_back(plan.members->at(place));
  crew_ = neighbours_->crew(ranks);
  members_ = plan.members;
  return crew_;
}

// Null where it is nothing for this backend.
std::unique_ptr<Work> ShmBackend::make(const Plan& plan, std::span<Entry> entries, const PeerGroup& crew) {
  StorePolicies& stores =
      stores_[static_cast<std::size_t>(plan.operation)][std::bit_width(bytes_of(plan, entries))];
  if (one_shot::fits(plan)) {
    const std::size_t slot = plan.number % slots_;
    auto work = one_shot::start(plan, entries, {crew, slot, last_use_[slot], &stores});
    return measured_after(std::move(work), plan, entries, rank_);
  }
  const WorkPlace place{crew, plan.area, last_area_use_[plan.area], &stores};
  if (staged_allreduce::fits(plan)) {
    auto work = staged_allreduce::start(plan, entries, place, memory_);
    if (!plan.measure || SquaredNorm::on_the_way(plan, entries)) return work;
    return measured_after(std::move(work), plan, entries, rank_);
  }
  if (staged_adasum::fits(plan)) {
    auto work = staged_adasum::start(plan, entries, place, memory_);
    return measured_after(std::move(work), plan, entries, rank_);
  }
  if (staged_exchange::fits(plan)) return staged_exchange::start(plan, entries.front(), place, memory_);
  return nullptr;
}

}  // namespace rueda
