// SPDX-License-Identifier: Apache-2.0
// Up to how many bytes an allreduce over a link goes by recursive doubling, and not around a ring.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/config.h"
#include "core/control/plan.h"
#include "ops/link_costs.h"

namespace rueda {

// For `ranks`, as many as `on_a_host` of which share a network card. Of B bytes doubling sends
// doubling_rounds() times all, and the ring 2 (ranks - 1) times a ranks-th, one message after the other:
// where both take the same time. At most kMostShort, since doubling does not overlap moving with reducing.
std::int64_t short_bytes(const LinkCosts& costs, Rank ranks, Rank on_a_host);
inline constexpr std::int64_t kMostShort = 1 << 20;

// Purpose: decides for the Plans of one link. Used by the coordinator thread; only that of rank 0 decides.
// Without a number or costs to go by, all goes around the ring.
class SwitchPoint {
 public:
  // `link`: its name in messages and in the saved profile.
  SwitchPoint(std::string link, const Config& config)
      : link_(std::move(link)), fixed_(config.short_bytes), profile_(config.profile) {}

  // Once all ranks are there, on each of them: rank 0 reads or measures what messages cost, in a job of
  // several hosts, and says so in its log.
  void meet(Link& link, Rank rank, const std::vector<std::string>& hosts, const std::function<void()>& alive);

  // What meet() finds.
  void use(const LinkCosts& costs, Rank on_a_host) {
    costs_ = costs;
    on_a_host_ = on_a_host;
  }

  bool is_short(const Plan& plan) const { return is_short(plan, plan.members->count(), on_a_host_); }
  // The same where `ranks` of its members carry it between hosts, as many as `on_a_host` by one card.
  bool is_short(const Plan& plan, Rank ranks, Rank on_a_host) const;

 private:
  std::optional<LinkCosts> saved() const;
  void save() const;

  std::string link_;
  std::int64_t fixed_;  // bytes; negative: by costs_
  std::string profile_;
  std::optional<LinkCosts> costs_;
  Rank on_a_host_ = 1;
};

}  // namespace rueda
