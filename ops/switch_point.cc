// SPDX-License-Identifier: Apache-2.0
#include "ops/switch_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "core/base/log.h"
#include "ops/doubling.h"

namespace rueda {
namespace {

Rank most_on_a_host(const std::vector<std::string>& hosts) {
  std::map<std::string_view, Rank> ranks;
  Rank most = 1;
  for (const std::string& host : hosts) most = std::max(most, ++ranks[host]);
  return most;
}

bool can_double(const Plan& plan, Rank ranks) {
  if (plan.operation != Operation::allreduce || plan.reduce_op == ReduceOp::adasum) return false;
  if (plan.compression == Compression::topk) return false;  // another algorithm
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(ranks));
  return ranks > 1 && (plan.reduction_order == ReductionOrder::any || power_of_two);
}

}  // namespace

std::int64_t short_bytes(const LinkCosts& costs, Rank ranks, Rank on_a_host) {
  if (ranks < 2) return 0;
  const double rounds = doubling_rounds(ranks), steps = 2.0 * (ranks - 1);
  const double saved = (steps - rounds) * costs.message;
  const double more = (rounds * std::min(on_a_host, ranks) - steps / ranks) * costs.byte;  // for each byte
  return saved < more * kMostShort ? static_cast<std::int64_t>(saved / more) : kMostShort;
}

bool SwitchPoint::is_short(const Plan& plan, Rank ranks, Rank on_a_host) const {
  if (!can_double(plan, ranks)) return false;
  if (fixed_ >= 0) return plan.buffer_bytes <= fixed_;
  return costs_ && plan.buffer_bytes <= short_bytes(*costs_, ranks, on_a_host);
}

void SwitchPoint::meet(Link& link, Rank rank, const std::vector<std::string>& hosts,
                       const std::function<void()>& alive) {
  const std::optional<LinkCosts> known = rank == 0 && fixed_ < 0 ? saved() : std::nullopt;
  const bool wanted = fixed_ < 0 && !known;
  const std::optional<LinkCosts> measured = measure_costs(link, rank, hosts, wanted, alive);
  const Rank ranks = static_cast<Rank>(hosts.size());
  if (rank != 0 || most_on_a_host(hosts) == ranks || fixed_ >= 0) return;
  if (!known && !measured) {
    return log(LogLevel::info, "{}: no answer when messages were to be timed; all allreduces go around rings",
               link_);
  }
  use(known ? *known : *measured, most_on_a_host(hosts));
  log(LogLevel::info,
      "{}: a message takes {:.1f} us and {:.2f} ns a byte ({}); allreduces of all {} ranks of up to {} bytes "
      "go by recursive doubling, larger ones around a ring",
      link_, costs_->message * 1e6, costs_->byte * 1e9, known ? "from " + profile_ : "measured", ranks,
      short_bytes(*costs_, ranks, on_a_host_));
  if (measured) save();
}

std::optional<LinkCosts> SwitchPoint::saved() const {
  if (profile_.empty()) return std::nullopt;
  const SavedCosts found = read_costs(profile_, link_);
  if (!found.status.ok()) {
    log(LogLevel::warning, "RUEDA_PROFILE: {}. It is measured anew; remove the file to have it written.",
        found.status.message);
  }
  return found.costs;
}

// A file that cannot be read stays as it is.
void SwitchPoint::save() const {
  if (profile_.empty() || !read_costs(profile_, link_).status.ok()) return;
  const Status saved = save_costs(profile_, link_, *costs_);
  if (!saved.ok()) log(LogLevel::warning, "RUEDA_PROFILE: {}. The job goes on without.", saved.message);
}

}  // namespace rueda
