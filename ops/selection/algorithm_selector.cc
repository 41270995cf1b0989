// SPDX-License-Identifier: Apache-2.0
#include "ops/selection/algorithm_selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "core/base/log.h"
#include "ops/schedules/recursive_doubling.h"

namespace rueda {
namespace {

Rank most_on_a_host(const std::vector<std::string>& hosts) {
  std::map<std::string_view, Rank> ranks;
  Rank most = 1;
  for (const std::string& host : hosts) most = std::max(most, ++ranks[host]);
  return most;
}

bool is_power_of_two(Rank ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

bool can_pair(const Plan& plan, Rank ranks) {
  if (plan.operation != Operation::allreduce || plan.reduce_op == ReduceOp::adasum) return false;
  if (plan.compression == Compression::topk) return false;  // another algorithm
  return ranks > 1 && (plan.reduction_order == ReductionOrder::any || is_power_of_two(ranks));
}

// Returns true if halving costs no more bytes than a ring: only a ring compresses its messages.
bool can_halve(const Plan& plan, Rank ranks) {
  return plan.compression == Compression::none && is_power_of_two(ranks);
}

// Up to how many bytes something is as quick as what takes so many seconds more for its messages, and so many
// less for each byte.
std::int64_t even_at(double more_for_messages, double less_for_a_byte) {
  if (more_for_messages <= 0) return 0;
  return more_for_messages < less_for_a_byte * kMostPaired
             ? static_cast<std::int64_t>(more_for_messages / less_for_a_byte)
             : kMostPaired;
}

}  // namespace

PairingCost cost_of(Pairing pairing, const LinkCosts& costs, Rank ranks, Rank on_a_host) {
  const double ring = 2.0 * (ranks - 1), of_ring = ring / ranks;  // messages, and bytes of each byte
  const double rounds = doubling_rounds(ranks), cards = std::min(on_a_host, ranks);
  switch (pairing) {
    case Pairing::doubling: return {rounds, rounds * (cards * costs.byte + kReduceByte)};
    case Pairing::halving: return {2 * rounds, of_ring * cards * costs.byte + of_ring / 2 * kReduceByte};
    case Pairing::none: break;
  }
  return {ring, of_ring * costs.byte + of_ring / 2 * kReduceByte};
}

PairedBytes paired_bytes(const LinkCosts& costs, Rank ranks, Rank on_a_host) {
  if (ranks < 2) return {};
  const auto cost = [&](Pairing pairing) { return cost_of(pairing, costs, ranks, on_a_host); };
  const auto even = [&](const PairingCost& fewer_bytes, const PairingCost& fewer_messages) {
    return even_at((fewer_bytes.messages - fewer_messages.messages) * costs.message,
                   fewer_messages.byte - fewer_bytes.byte);
  };
  const PairingCost ring = cost(Pairing::none), doubling = cost(Pairing::doubling);
  PairedBytes found{even(ring, doubling), 0};
  if (!is_power_of_two(ranks)) return found;
  const PairingCost halving = cost(Pairing::halving);
  found.halving = even(ring, halving);
  if (found.halving >= found.doubling) found.doubling = even(halving, doubling);
  return found;
}

double AlgorithmSelector::predicted_seconds(const Plan& plan, Rank ranks, Rank on_a_host) const {
  const bool has_model = plan.operation == Operation::allreduce && plan.reduce_op != ReduceOp::adasum &&
                         plan.compression != Compression::topk;
  const bool is_ordered = plan.reduction_order == ReductionOrder::fixed && plan.pairing == Pairing::none;
  if (!costs_ || !has_model || is_ordered || ranks < 2) return 0;
  const PairingCost cost = cost_of(plan.pairing, *costs_, ranks, on_a_host);
  return cost.messages * costs_->message + static_cast<double>(plan.buffer_bytes) * cost.byte;
}

PairedBytes AlgorithmSelector::bytes(Rank ranks, Rank on_a_host) const {
  PairedBytes most = costs_ ? paired_bytes(*costs_, ranks, on_a_host) : PairedBytes{-1, -1};
  if (fixed_.doubling >= 0) most.doubling = fixed_.doubling;
  if (fixed_.halving >= 0) most.halving = fixed_.halving;
  return most;
}

Pairing AlgorithmSelector::pairing(const Plan& plan, Rank ranks, Rank on_a_host) const {
  if (!can_pair(plan, ranks)) return Pairing::none;
  const PairedBytes most = bytes(ranks, on_a_host);
  if (plan.buffer_bytes <= most.doubling) return Pairing::doubling;
  return plan.buffer_bytes <= most.halving && can_halve(plan, ranks) ? Pairing::halving : Pairing::none;
}

void AlgorithmSelector::measure(Link& link, Rank rank, const std::vector<std::string>& hosts,
                                const std::function<void()>& alive) {
  const std::optional<LinkCosts> known = rank == 0 && fixed_.doubling < 0 ? saved() : std::nullopt;
  const bool wanted = fixed_.doubling < 0 && !known;
  const std::optional<LinkCosts> measured = measure_costs(link, rank, hosts, wanted, alive);
  const Rank ranks = static_cast<Rank>(hosts.size());
  if (rank != 0 || most_on_a_host(hosts) == ranks || fixed_.doubling >= 0) return;
  if (!known && !measured) {
    return log(LogLevel::info, "{}: no answer when messages were to be timed; all allreduces go around rings",
               link_);
  }
  use(known ? *known : *measured, most_on_a_host(hosts));
  const PairedBytes most = bytes(ranks, on_a_host_);
  log(LogLevel::info,
      "{}: a message takes {:.1f} us and {:.2f} ns a byte ({}); allreduces of all {} ranks of up to {} bytes "
      "go by recursive doubling, of up to {} by halving, larger ones around a ring",
      link_, costs_->message * 1e6, costs_->byte * 1e9, known ? "from " + profile_ : "measured", ranks,
      most.doubling, std::max(most.doubling, most.halving));
  if (measured) save();
}

std::optional<LinkCosts> AlgorithmSelector::saved() const {
  if (profile_.empty()) return std::nullopt;
  const SavedCosts found = read_costs(profile_, link_);
  if (!found.status.ok()) {
    log(LogLevel::warning, "RUEDA_PROFILE: {}. It is measured anew; remove the file to have it written.",
        found.status.message);
  }
  return found.costs;
}

// A file that cannot be read stays as it is.
void AlgorithmSelector::save() const {
  if (profile_.empty() || !read_costs(profile_, link_).status.ok()) return;
  const Status saved = save_costs(profile_, link_, *costs_);
  if (!saved.ok()) log(LogLevel::warning, "RUEDA_PROFILE: {}. The job goes on without.", saved.message);
}

}  // namespace rueda
