// SPDX-License-Identifier: Apache-2.0
// Adasum over links with ranks in one thread: any interleaving of their steps, abandoned at any moment.
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "tests/support/conformance/adasum_reference.h"
#include "tests/support/worlds/link_world.h"

namespace rueda {
namespace {

constexpr std::int64_t kSizes[] = {70, 1, 300};

std::vector<float> values_of(Rank rank, std::uint64_t plan, std::int64_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank * 77 + elements) + static_cast<unsigned>(plan));
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = static_cast<float>(random() % 33) - 16;
  return values;
}

LinkPart part_of(std::uint64_t number, Rank rank, Rank ranks) {
  Plan plan;
  plan.number = number;
  plan.reduce_op = ReduceOp::adasum;
  plan.chunk_bytes = 100;  // some messages each
  std::vector<std::vector<float>> values;
  for (std::int64_t elements : kSizes) values.push_back(values_of(rank, number, elements));
  return {std::move(plan), ranks, std::move(values)};
}

void check(const LinkPart& part, Rank ranks) {
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    std::vector<Vector> vectors;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const std::vector<float> values = values_of(rank, part.plan.number, kSizes[i]);
      vectors.emplace_back(values.begin(), values.end());
    }
    const Vector expected = adasum_of(std::move(vectors));
    for (std::size_t e = 0; e < expected.size(); ++e)
      ASSERT_NEAR(part.tensors[i][e], expected[e], 1e-4) << "tensor " << i << ", element " << e;
  }
}

// `abandons`: how many of 100 Works.
void run_adasum_world(unsigned seed, unsigned abandons, int& done, int& given_up) {
  std::mt19937 random(seed);
  const auto ranks = static_cast<Rank>(2 + random() % 7);
  auto make = [&](std::uint64_t number, Rank rank) { return part_of(number, rank, ranks); };
  LinkWorld world(ranks, make, random, abandons, 60);
  world.run(random, done, given_up, [&](const LinkPart& part) { check(part, ranks); });
}

TEST(AdasumOverLinks, ComesToItsEndInAnyInterleaving) { expect_all_done(run_adasum_world); }

TEST(AdasumOverLinks, MayBeAbandonedAtAnyMoment) { expect_many_abandoned(300, run_adasum_world); }

}  // namespace
}  // namespace rueda
