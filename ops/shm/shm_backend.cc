// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/shm_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "core/engine/submissions/submission.h"
#include "ops/arithmetic/squared_norm.h"
#include "ops/shm/one_shot.h"
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

// The number of bytes that decides how this rank stores. If an operation's tensors differ by rank, a Plan
// knows the size of some rank's tensor only.
std::uint64_t bytes_of(const Plan& plan, std::span<const Entry> entries) {
  const bool own = traits(plan.operation).ragged_first_axis;
  return static_cast<std::uint64_t>(own ? entries.front().submission().input.bytes() : plan.buffer_bytes);
}

// Purpose: a way through shared memory. A plain value.
struct ShmAlgorithm {
  std::string_view name;
  bool (*fits)(const Plan& plan);
  std::unique_ptr<Work> (*start)(const Plan& plan, std::span<Entry> entries, const WorkContext& context,
                                 const Memory& memory);
  bool in_slot = false;  // else in an area
  bool flows = false;    // heeds the `flow` of its first entry
  // Whether it sums up squares on the way; if not, they are measured in the results.
  bool measures = false;
};

constexpr std::array kAlgorithms{
    ShmAlgorithm{.name = "one-shot",
                 .fits = one_shot::fits,
                 .start = [](const Plan& plan, std::span<Entry> entries, const WorkContext& context,
                             const Memory&) { return one_shot::start(plan, entries, context); },
                 .in_slot = true},
    ShmAlgorithm{.name = "staged allreduce",
                 .fits = staged_allreduce::fits,
                 .start = staged_allreduce::start,
                 .flows = true,
                 .measures = true},
    ShmAlgorithm{
        .name = "staged exchange",
        .fits = staged_exchange::fits,
        .start =
            [](const Plan& plan, std::span<Entry> entries, const WorkContext& context, const Memory& memory) {
              return staged_exchange::start(plan, entries.front(), context, memory);
            }},
};

// The first that fits; null: the Plan is nothing for this backend.
const ShmAlgorithm* algorithm_for(const Plan& plan) {
  const auto found =
      std::ranges::find_if(kAlgorithms, [&](const ShmAlgorithm& each) { return each.fits(plan); });
  return found == kAlgorithms.end() ? nullptr : &*found;
}

}  // namespace

bool matches(const Plan& plan, std::span<const Entry> entries) {
  if (entries.size() != plan.tensors.size()) return false;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!fits_plan(entries[i], plan, plan.tensors[i])) return false;
  }
  return true;
}

bool ShmBackend::can_run(const Plan& plan) const { return algorithm_for(plan) != nullptr && near_(plan); }

bool ShmBackend::flows(const Plan& plan) const {
  const ShmAlgorithm* const algorithm = algorithm_for(plan);
  return algorithm != nullptr && algorithm->flows;
}

std::unique_ptr<Work> ShmBackend::start(const Plan& plan, std::span<Entry> entries) {
  owner_.check();
  const PeerGroup* const peers = peers_of(plan);
  const ShmAlgorithm* const algorithm = algorithm_for(plan);
  if (peers == nullptr || algorithm == nullptr || !matches(plan, entries)) {
    throw BackendError(Status::backend_error(
        fmt::format("Plan {}, {} of {} tensors, cannot go through the shared memory of rank {}. Are all "
                    "ranks of one build?",
                    plan.number, to_string(plan.operation), plan.tensors.size(), rank_)));
  }
  const std::size_t number = algorithm->in_slot ? plan.number % slots_ : plan.area;
  LastUse& last = algorithm->in_slot ? last_use_[number] : last_area_use_[number];
  StorePolicies& stores =
      stores_[static_cast<std::size_t>(plan.operation)][std::bit_width(bytes_of(plan, entries))];
  auto work = algorithm->start(plan, entries, {*peers, number, last, &stores}, memory_);
  const bool measured = !plan.measure || (algorithm->measures && SquaredNorm::on_the_way(plan, entries));
  return measured ? std::move(work) : measured_after(std::move(work), plan, entries, rank_);
}

const PeerGroup* ShmBackend::peers_of(const Plan& plan) {
  if (members_ == plan.members) return peers_;
  std::vector<Rank> ranks;
  for (Rank index = 0; index < plan.members->count(); ++index) ranks.push_back(plan.members->at(index));
  peers_ = local_peers_->group_of(ranks);
  members_ = plan.members;
  return peers_;
}

}  // namespace rueda
