// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/hierarchy_backend.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "ops/arithmetic/squared_norm.h"
#include "ops/hierarchy/hierarchy_allreduce.h"
#include "ops/hierarchy/hierarchy_exchange.h"
#include "ops/shm/shm_backend.h"

namespace rueda {

HierarchyBackend::HierarchyBackend(Rank rank, LinkBackend& below, std::shared_ptr<LocalPeers> local_peers,
                                   std::shared_ptr<Hosts> hosts, std::shared_ptr<WideAreas> areas)
    : name_(fmt::format("hierarchy-{}", below.name())),
      rank_(rank),
      below_(below),
      local_peers_(std::move(local_peers)),
      hosts_(std::move(hosts)),
      areas_(std::move(areas)) {}

bool HierarchyBackend::fits(const Plan& plan, const HostGroups& groups) const {
  if (groups.hosts.size() < 2 || groups.largest < 2) return false;
  const bool allreduces = plan.operation == Operation::allreduce;
  if (!(allreduces ? hierarchy_allreduce::fits(plan) : hierarchy_exchange::fits(plan, groups))) return false;
  const Slices slices = allreduces ? hierarchy_allreduce::slices_of(plan, groups, areas_->most_slices)
                                   : hierarchy_exchange::slices_of(plan, groups, areas_->most_slices);
  return HierarchyWork::largest_tag(slices.count()) <= below_.link().largest_tag();
}

bool HierarchyBackend::can_run(const Plan& plan) const {
  if (!below_.can_run(plan)) return false;
  const std::shared_ptr<const HostGroups> groups = hosts_->groups(plan);
  return fits(plan, *groups) && hosts_->share_memory(*groups);
}

// One rank of each host sends a slice, and the slices of a host share its cards.
void HierarchyBackend::decide(Plan& plan) const {
  const auto hosts = static_cast<Rank>(hosts_->groups(plan)->hosts.size());
  if (below_.selector()) plan.pairing = below_.selector()->pairing(plan, hosts, 1);
}

// The part between hosts, by the model that decides.
double HierarchyBackend::predicted_seconds(const Plan& plan) const {
  const std::optional<AlgorithmSelector>& selector = below_.selector();
  if (!selector || !selector->has_costs()) return 0;
  return selector->predicted_seconds(plan, static_cast<Rank>(hosts_->groups(plan)->hosts.size()), 1);
}

std::unique_ptr<Work> HierarchyBackend::start(const Plan& plan, std::span<Entry> entries) {
  owner_.check();
  std::shared_ptr<const HostGroups> groups = hosts_->groups(plan);
  const std::vector<Rank>& members = groups->hosts[groups->host_of(rank_)];
  const PeerGroup* const peers = local_peers_->group_of(members);
  if (peers == nullptr || !fits(plan, *groups) || !matches(plan, entries)) {
    throw BackendError(Status::backend_error(
        fmt::format("Plan {}, {} of {} tensors, cannot go from host to host by rank {}, which shares memory "
                    "with {} ranks. Are all ranks of one build?",
                    plan.number, to_string(plan.operation), plan.tensors.size(), rank_, members.size())));
  }
  const std::size_t area = plan.number % SegmentContents::kWideAreas;
  const HostContext context{{.peers = *peers, .number = area, .last = areas_->last_use[area], .wide = true},
                            std::move(groups),
                            below_.link(),
                            below_.memory(),
                            below_.error_feedback(),
                            areas_->most_slices};
  if (plan.operation != Operation::allreduce)
    return hierarchy_exchange::start(plan, entries.front(), context);
  auto work = hierarchy_allreduce::start(plan, entries, context);
  if (SquaredNorm::on_the_way(plan, entries)) return work;
  return measured_after(std::move(work), plan, entries, rank_);
}

}  // namespace rueda
