// SPDX-License-Identifier: Apache-2.0
// Top-k allreduces over links with ranks in one thread: any interleaving of their steps, abandoned at any
// moment; results, and what is kept back, are those of a plain loop, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/compression/topk_select.h"
#include "tests/support/worlds/link_world.h"

namespace rueda {
namespace {

constexpr std::int64_t kElements = 300;
constexpr std::uint64_t kPlans = 6;

std::vector<float> values_of(Rank rank, std::uint64_t plan) {
  std::mt19937 random(static_cast<unsigned>(rank) * 77 + static_cast<unsigned>(plan));
  std::vector<float> values(kElements);
  for (float& value : values) value = static_cast<float>(random()) / 1e9f - 2.0f;
  return values;
}

// One rank's part of a Plan; all are of one name.
std::unique_ptr<LinkPart> part_of(std::uint64_t number, Rank rank, Rank ranks, double share) {
  Plan plan;
  plan.number = number;
  plan.compression = Compression::topk;
  plan.compression_share = share;
  plan.chunk_bytes = 100;  // some messages each
  return std::make_unique<LinkPart>(std::move(plan), ranks,
                                    std::vector<std::vector<float>>{values_of(rank, number)}, "x");
}

using RuntimeComponents = std::vector<std::vector<std::unique_ptr<LinkPart>>>;  // of ranks, of Plans

void check(const RuntimeComponents& components, double share) {
  std::vector<std::vector<float>> kept(components.size(), std::vector<float>(kElements, 0.0f));
  std::vector<Picked> picked(static_cast<std::size_t>(picked_of(share, kElements)));
  for (std::uint64_t plan = 0; plan < kPlans; ++plan) {
    std::vector<float> sum(kElements, 0.0f);
    for (std::size_t rank = 0; rank < components.size(); ++rank) {
      std::vector<float> mine = values_of(static_cast<Rank>(rank), plan + 1);
      for (std::int64_t i = 0; i < kElements; ++i) mine[i] += kept[rank][i];
      pick_largest(mine, picked);
      ASSERT_TRUE(add_picked(sum, picked));
      if (components[rank][plan]->end == Work::Step::done) kept[rank] = mine;
    }
    for (const auto& of_rank : components) {
      if (of_rank[plan]->end == Work::Step::done) {
        ASSERT_EQ(of_rank[plan]->tensors.front(), sum) << "plan " << plan;
      }
    }
  }
}

// `abandons`: how many of 100 Works. A rank begins a Plan when the one before has had a step.
void run_topk_world(unsigned seed, unsigned abandons, int& done, int& given_up) {
  std::mt19937 random(seed);
  const auto ranks = static_cast<Rank>(2 + random() % 5);
  const double share = std::vector{0.01, 0.1, 0.5, 1.0}[random() % 4];
  MemoryNetwork network(ranks);
  std::vector<std::unique_ptr<LinkBackend>> backends;
  RuntimeComponents components(static_cast<std::size_t>(ranks));
  for (Rank rank = 0; rank < ranks; ++rank) {
    backends.push_back(std::make_unique<LinkBackend>("memory", network.link(rank), rank, true));
    for (std::uint64_t number = 1; number <= kPlans; ++number) {
      auto& part = components[rank].emplace_back(part_of(number, rank, ranks, share));
      if (random() % 100 < abandons) part->abandoned_after = static_cast<int>(random() % 60);
    }
  }
  auto over = [](const auto& of_rank) {
    return std::ranges::all_of(of_rank, [](const auto& part) { return part->over(); });
  };
  std::vector<std::uint64_t> begun(components.size(), 0);
  for (int steps = 0; !std::ranges::all_of(components, over); ++steps) {
    ASSERT_LT(steps, 200'000) << "somebody waits for ever";
    const std::size_t rank = random() % components.size();
    const std::uint64_t plan = random() % std::min(begun[rank] + 1, kPlans);
    LinkPart& part = *components[rank][plan];
    if (part.over()) continue;
    if (plan == begun[rank]) {
      part.work = backends[rank]->start(part.plan, part.entries);
      ++begun[rank];
    }
    part.step(done, given_up);
  }
  check(components, share);
}

TEST(TopkOverLinks, ComesToItsEndInAnyInterleaving) { expect_all_done(run_topk_world); }

TEST(TopkOverLinks, MayBeAbandonedAtAnyMoment) { expect_many_abandoned(300, run_topk_world); }

}  // namespace
}  // namespace rueda
