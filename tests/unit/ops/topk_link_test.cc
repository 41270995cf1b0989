// SPDX-License-Identifier: Apache-2.0
// Top-k allreduces over links with ranks in one thread: any interleaving of their steps, abandoned at any
// moment; results, and what is kept back, are those of a plain loop, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/largest.h"
#include "ops/link_backend.h"
#include "tests/support/memory_network.h"

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

// Purpose: one rank's part of a Plan; all are of one name.
struct Part {
  Plan plan;
  std::vector<float> tensor;
  std::vector<Entry> entries;
  std::unique_ptr<Work> work;
  Work::Step end = Work::Step::again;
  int abandoned_after = -1;  // steps

  Part(std::uint64_t number, Rank rank, Rank ranks, double share) : tensor(values_of(rank, number)) {
    plan.number = number;
    plan.compression = Compression::topk;
    plan.compression_share = share;
    plan.chunk_bytes = 100;  // some messages each
    plan.members = std::make_shared<const RankSet>(0, ranks);
    Request request;
    request.name = "x";
    request.shape = {kElements};
    place(plan, plan.tensors.emplace_back(0, true, std::make_shared<const Request>(request)));
    entries.emplace_back(plan.tensors.front().request, std::make_shared<HandleState>());
    Submission& submission = entries.back().submission();
    submission.output = {tensor.data(), DataType::float32, {kElements}, {}};
    submission.input = submission.output;
  }
  bool over() const { return end == Work::Step::done || end == Work::Step::given_up; }
};

using Parts = std::vector<std::vector<std::unique_ptr<Part>>>;  // of ranks, of Plans

void check(const Parts& parts, double share) {
  std::vector<std::vector<float>> kept(parts.size(), std::vector<float>(kElements, 0.0f));
  std::vector<Picked> picked(static_cast<std::size_t>(picked_of(share, kElements)));
  for (std::uint64_t plan = 0; plan < kPlans; ++plan) {
    std::vector<float> sum(kElements, 0.0f);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      std::vector<float> mine = values_of(static_cast<Rank>(rank), plan + 1);
      for (std::int64_t i = 0; i < kElements; ++i) mine[i] += kept[rank][i];
      pick_largest(mine, picked);
      ASSERT_TRUE(add_picked(sum, picked));
      if (parts[rank][plan]->end == Work::Step::done) kept[rank] = mine;
    }
    for (const auto& of_rank : parts) {
      if (of_rank[plan]->end == Work::Step::done) {
        ASSERT_EQ(of_rank[plan]->tensor, sum) << "plan " << plan;
      }
    }
  }
}

// `abandons`: how many of 100 Works. A rank begins a Plan when the one before has had a step.
void run_world(unsigned seed, unsigned abandons, int& done, int& given_up) {
  std::mt19937 random(seed);
  const auto ranks = static_cast<Rank>(2 + random() % 5);
  const double share = std::vector{0.01, 0.1, 0.5, 1.0}[random() % 4];
  MemoryNetwork network(ranks);
  std::vector<std::unique_ptr<LinkBackend>> backends;
  Parts parts(static_cast<std::size_t>(ranks));
  for (Rank rank = 0; rank < ranks; ++rank) {
    backends.push_back(std::make_unique<LinkBackend>("memory", network.link(rank), rank, true));
    for (std::uint64_t number = 1; number <= kPlans; ++number) {
      auto& part = parts[rank].emplace_back(std::make_unique<Part>(number, rank, ranks, share));
      if (random() % 100 < abandons) part->abandoned_after = static_cast<int>(random() % 60);
    }
  }
  auto over = [](const auto& of_rank) {
    return std::ranges::all_of(of_rank, [](const auto& part) { return part->over(); });
  };
  std::vector<std::uint64_t> begun(parts.size(), 0);
  for (int steps = 0; !std::ranges::all_of(parts, over); ++steps) {
    ASSERT_LT(steps, 200'000) << "somebody waits for ever";
    const std::size_t rank = random() % parts.size();
    const std::uint64_t plan = random() % std::min(begun[rank] + 1, kPlans);
    Part& part = *parts[rank][plan];
    if (part.over()) continue;
    if (plan == begun[rank]) {
      part.work = backends[rank]->start(part.plan, part.entries);
      ++begun[rank];
    }
    if (part.abandoned_after-- == 0) part.work->abandon();
    part.end = part.work->step();
    if (!part.over()) continue;
    ++(part.end == Work::Step::done ? done : given_up);
    part.work.reset();
  }
  check(parts, share);
}

TEST(TopkOverLinks, ComesToItsEndInAnyInterleaving) {
  int done = 0, given_up = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    run_world(seed, 0, done, given_up);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_EQ(given_up, 0);
}

TEST(TopkOverLinks, MayBeAbandonedAtAnyMoment) {
  int done = 0, given_up = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    run_world(seed, 1 + seed % 20, done, given_up);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_GT(done, 300);
  EXPECT_GT(given_up, 300);
}

}  // namespace
}  // namespace rueda
