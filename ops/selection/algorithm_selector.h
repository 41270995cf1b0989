// SPDX-License-Identifier: Apache-2.0
// Up to how many bytes an allreduce over a link goes in pairs of ranks, and not around a ring.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"
#include "core/control/messages/plan.h"
#include "ops/selection/link_costs.h"

namespace rueda {

// `on_a_host` of the `ranks` share a card. Doubling sends the vector doubling_rounds() times, and reduces it
// as often. Halving sends 2 log2(ranks) messages, the ring 2 (ranks - 1) one after the other. Each of the two
// sends 2 (ranks - 1) / ranks of the vector, and reduces half of that. Only the ring sends and reduces at the
// same time, so it takes all vectors above kMostPaired.
struct PairedBytes {
  std::int64_t doubling = 0;  // at most so many go by doubling
  std::int64_t halving = 0;   // ... longer ones by halving, of a power of two of ranks; the rest by the ring
};
PairedBytes paired_bytes(const LinkCosts& costs, Rank ranks, Rank on_a_host);

// What an allreduce costs by this model: messages one after the other, and seconds for each byte of it.
struct PairingCost {
  double messages = 0;
  double byte = 0;
};
PairingCost cost_of(Pairing pairing, const LinkCosts& costs, Rank ranks, Rank on_a_host);
inline constexpr std::int64_t kMostPaired = 512 << 10;
inline constexpr double kReduceByte = 0.3e-9;  // seconds; of what is received and what is stored, by one core

// Purpose: decides for the Plans of one link. Used by the background thread; only that of rank 0 decides.
// Without a number or costs to go by, all goes around the ring.
class AlgorithmSelector {
 public:
  // `link`: its name in messages and in the saved profile.
  AlgorithmSelector(std::string link, const Config& config)
      : link_(std::move(link)), fixed_{config.short_bytes, config.medium_bytes}, profile_(config.profile) {}

  // Once all ranks are there, on each of them: rank 0 reads or measures what messages cost, in a job of
  // several hosts, and says so in its log.
  void measure(Link& link, Rank rank, const std::vector<std::string>& hosts,
               const std::function<void()>& alive);

  // Takes the costs that measure() finds.
  void use(const LinkCosts& costs, Rank on_a_host) {
    costs_ = costs;
    on_a_host_ = on_a_host;
  }

  Pairing pairing(const Plan& plan) const { return pairing(plan, plan.members->count(), on_a_host_); }
  // The same where `ranks` of its members carry it between hosts, as many as `on_a_host` by one card.
  Pairing pairing(const Plan& plan, Rank ranks, Rank on_a_host) const;

  // Of an allreduce by its pairing. 0: there are no costs here, or it goes another way.
  double predicted_seconds(const Plan& plan) const {
    return predicted_seconds(plan, plan.members->count(), on_a_host_);
  }
  double predicted_seconds(const Plan& plan, Rank ranks, Rank on_a_host) const;
  bool has_costs() const { return costs_.has_value(); }

 private:
  PairedBytes bytes(Rank ranks, Rank on_a_host) const;
  std::optional<LinkCosts> saved() const;
  void save() const;

  std::string link_;
  PairedBytes fixed_;  // negative: by costs_
  std::string profile_;
  std::optional<LinkCosts> costs_;
  Rank on_a_host_ = 1;
};

}  // namespace rueda
