// SPDX-License-Identifier: Apache-2.0
// Adasum over links with ranks in one thread: any interleaving of their steps, abandoned at any moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "ops/link_backend.h"
#include "tests/support/adasum_reference.h"
#include "tests/support/memory_network.h"

namespace rueda {
namespace {

constexpr std::int64_t kSizes[] = {70, 1, 300};

std::vector<float> values_of(Rank rank, std::uint64_t plan, std::int64_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank * 77 + elements) + static_cast<unsigned>(plan));
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = static_cast<float>(random() % 33) - 16;
  return values;
}

// Purpose: one rank's part of a Plan.
struct Part {
  Plan plan;
  std::vector<std::vector<float>> tensors;
  std::vector<Entry> entries;
  std::unique_ptr<Work> work;
  Work::Step end = Work::Step::waiting;

  Part(std::uint64_t number, Rank rank, Rank ranks) {
    plan.number = number;
    plan.reduce_op = ReduceOp::adasum;
    plan.chunk_bytes = 100;  // some messages each
    plan.members = std::make_shared<const RankSet>(0, ranks);
    for (std::int64_t elements : kSizes) {
      Request request;
      request.shape = {elements};
      place(plan, plan.tensors.emplace_back(0, true, std::make_shared<const Request>(request)));
      tensors.push_back(values_of(rank, number, elements));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      auto& tensor = tensors[i];
      entries.emplace_back(plan.tensors[i].request, std::make_shared<HandleState>());
      Submission& submission = entries.back().submission();
      submission.output = {tensor.data(), DataType::float32, {static_cast<std::int64_t>(tensor.size())}, {}};
      submission.input = submission.output;
    }
  }
  bool over() const { return end == Work::Step::done || end == Work::Step::given_up; }
};

void check(const Part& part, Rank ranks) {
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
void run_world(unsigned seed, unsigned abandons, int& done, int& given_up) {
  std::mt19937 random(seed);
  const auto ranks = static_cast<Rank>(2 + random() % 7);
  MemoryNetwork network(ranks);
  std::vector<std::unique_ptr<LinkBackend>> backends;
  std::vector<std::unique_ptr<Part>> parts;  // of all ranks, two Plans at the same time
  std::vector<int> abandoned_after;
  for (Rank rank = 0; rank < ranks; ++rank) {
    backends.push_back(std::make_unique<LinkBackend>("memory", network.link(rank), rank, true));
    for (std::uint64_t number : {1, 2}) {
      Part& part = *parts.emplace_back(std::make_unique<Part>(number, rank, ranks));
      part.work = backends.back()->start(part.plan, part.entries);
      abandoned_after.push_back(random() % 100 < abandons ? static_cast<int>(random() % 60) : -1);
    }
  }
  int steps = 0;
  while (!std::ranges::all_of(parts, [](const auto& part) { return part->over(); })) {
    ASSERT_LT(++steps, 200'000) << "somebody waits for ever, seed " << seed;
    const std::size_t i = random() % parts.size();
    Part& part = *parts[i];
    if (part.over()) continue;
    if (abandoned_after[i]-- == 0) part.work->abandon();
    part.end = part.work->step();
    if (!part.over()) continue;
    ++(part.end == Work::Step::done ? done : given_up);
    part.work.reset();
    if (part.end == Work::Step::done) check(part, ranks);
  }
}

TEST(AdasumOverLinks, ComesToItsEndInAnyInterleaving) {
  int done = 0, given_up = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    run_world(seed, 0, done, given_up);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_EQ(given_up, 0);
}

TEST(AdasumOverLinks, MayBeAbandonedAtAnyMoment) {
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
