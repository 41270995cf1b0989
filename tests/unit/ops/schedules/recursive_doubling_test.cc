// SPDX-License-Identifier: Apache-2.0
// Recursive doubling and halving: their schedules on plain sets, and the allreduce over links with ranks in
// one thread, in any interleaving of their steps, abandoned at any moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "ops/schedules/recursive_doubling.h"
#include "ops/schedules/reduction_tree.h"
#include "tests/support/worlds/link_world.h"

namespace rueda {
namespace {

using Kind = PairStep::Kind;

Kind other_side(Kind kind) {
  switch (kind) {
    case Kind::give: return Kind::take;
    case Kind::take: return Kind::give;
    case Kind::give_result: return Kind::take_result;
    case Kind::take_result: return Kind::give_result;
    case Kind::exchange:
    case Kind::exchange_result: break;
  }
  return kind;
}

// What an index has combined, as text: "((0+1)+(2+3))".
std::string joined(Rank index, Rank peer, const std::string& own, const std::string& other) {
  return peer < index ? "(" + other + "+" + own + ")" : "(" + own + "+" + other + ")";
}

using Sums = std::vector<std::string>;  // of an index, by segment

// Runs all indices until nobody can go on; a message is there once both are at it.
std::vector<Sums> results(Rank size, Rank segments, decltype(doubling_steps)* steps_of, int& rounds) {
  std::vector<std::vector<PairStep>> steps;
  std::vector<Sums> sums;
  std::vector<std::size_t> at(size, 0);
  for (Rank index = 0; index < size; ++index) {
    steps.push_back(steps_of(index, size));
    sums.emplace_back(segments, std::to_string(index));
  }
  for (rounds = 0;; ++rounds) {
    const std::vector<Sums> before = sums;
    const std::vector<std::size_t> were = at;
    for (Rank index = 0; index < size; ++index) {
      if (were[index] == steps[index].size()) continue;
      const PairStep& step = steps[index][were[index]];
      if (were[step.peer] == steps[step.peer].size()) continue;
      const PairStep& theirs = steps[step.peer][were[step.peer]];
      if (theirs.peer != index) continue;
      EXPECT_EQ(theirs.kind, other_side(step.kind));
      if (step.receives()) EXPECT_EQ(step.received, theirs.sent);
      for (Rank i = step.received.begin; step.receives() && i < step.received.end; ++i) {
        const std::string &own = before[index][i], &other = before[step.peer][i];
        sums[index][i] = step.of_result() ? other : joined(index, step.peer, own, other);
      }
      ++at[index];
    }
    if (at == were) break;
  }
  for (Rank index = 0; index < size; ++index) EXPECT_EQ(at[index], steps[index].size()) << index;
  return sums;
}

TEST(DoublingSchedule, AllCombineAllInOneOrder) {
  for (Rank size = 1; size <= 40; ++size) {
    int rounds = 0;
    const std::vector<Sums> sums = results(size, 1, doubling_steps, rounds);
    EXPECT_EQ(rounds, doubling_rounds(size)) << size;
    for (const Sums& sum : sums) ASSERT_EQ(sum, sums.front()) << size;
    const std::string& first = sums.front().front();
    for (Rank index = 0; index < size; ++index) {
      const std::string number = std::to_string(index);
      int times = 0;
      for (std::size_t at = 0; (at = first.find(number, at)) != std::string::npos; at += number.size()) {
        const bool begins = at == 0 || std::isdigit(first[at - 1]) == 0;
        const bool ends = at + number.size() == first.size() || std::isdigit(first[at + number.size()]) == 0;
        times += begins && ends;
      }
      ASSERT_EQ(times, 1) << index << " in " << first;
    }
  }
  int rounds = 0;
  EXPECT_EQ(results(8, 1, doubling_steps, rounds).front().front(), "(((0+1)+(2+3))+((4+5)+(6+7)))");
  EXPECT_EQ(results(6, 1, doubling_steps, rounds).front().front(), "(((0+4)+(1+5))+(2+3))");
}

TEST(HalvingSchedule, CombinesInTheOrderOfDoublingAndSendsEachSegmentOnceThereAndBack) {
  for (Rank size = 1; size <= 64; size *= 2) {
    int rounds = 0;
    const std::string wanted = results(size, 1, doubling_steps, rounds).front().front();
    for (const Sums& sums : results(size, size, halving_steps, rounds))
      ASSERT_EQ(sums, Sums(size, wanted)) << size;
    EXPECT_EQ(rounds, 2 * doubling_rounds(size));
    for (Rank index = 0; index < size; ++index) {
      Rank sent = 0;
      for (const PairStep& step : halving_steps(index, size)) sent += step.sent.end - step.sent.begin;
      EXPECT_EQ(sent, 2 * (size - 1));
    }
  }
}

constexpr std::int64_t kSizes[] = {70, 1, 300};

// The last bits of a sum of these depend on the order.
std::vector<float> values_of(Rank rank, std::uint64_t plan, std::int64_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank * 77 + elements) + static_cast<unsigned>(plan));
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (float& value : values) value = static_cast<float>(random() % 1'000'003) * 1.1e-3F - 500.0F;
  return values;
}

// One rank's part of a measured, fused allreduce in float32.
LinkPart part_of(std::uint64_t number, Rank rank, Rank ranks, Pairing pairing) {
  Plan plan;
  plan.number = number;
  plan.reduce_op = ReduceOp::average;
  plan.prescale_factor = 3.0;
  plan.postscale_factor = 0.3;
  plan.measure = true;
  plan.pairing = pairing;
  plan.chunk_bytes = number % 2 == 0 ? 100 : 1 << 18;  // some messages an exchange, or one
  std::vector<std::vector<float>> values;
  for (std::int64_t elements : kSizes) values.push_back(values_of(rank, number, elements));
  return {std::move(plan), ranks, std::move(values)};
}

// By the documented order for a power of two; else near the exact sum.
void check(const LinkPart& part, Rank ranks) {
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    std::vector<std::vector<float>> values;
    std::vector<const std::byte*> copies;
    for (Rank rank = 0; rank < ranks; ++rank) values.push_back(values_of(rank, part.plan.number, kSizes[i]));
    for (const auto& each : values) copies.push_back(reinterpret_cast<const std::byte*>(each.data()));
    const ScaledReduction reduction = ScaledReduction::of(part.plan, ranks);
    std::vector<float> expected(values.front().size());
    ReductionTree(reduction).combine(reinterpret_cast<std::byte*>(expected.data()), copies, 0,
                                     expected.size());
    kernels::kernels_for(DataType::float32)
        .store(expected.data(), expected.data(), expected.size(), reduction.postscale);
    const bool power = std::has_single_bit(static_cast<unsigned>(ranks));
    for (std::size_t e = 0; e < expected.size(); ++e) {
      if (power) {
        ASSERT_EQ(part.tensors[i][e], expected[e]) << "tensor " << i << ", element " << e;
      } else {
        ASSERT_NEAR(part.tensors[i][e], expected[e], 0.01) << "tensor " << i << ", element " << e;
      }
    }
  }
}

// Those that are done have the same bits, and where all are, every element has been counted once.
void compare(const std::vector<LinkPart*>& parts) {
  const LinkPart* first = nullptr;
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    double squares = 0, counted = 0;
    bool all = true;
    for (const LinkPart* part : parts) {
      all &= part->end == Work::Step::done;
      counted += part->entries[i].handle->numbers.square_sum;
      if (part->end != Work::Step::done) continue;
      if (first == nullptr) first = part;
      ASSERT_EQ(std::memcmp(part->tensors[i].data(), first->tensors[i].data(), 4 * part->tensors[i].size()),
                0);
    }
    if (!all) continue;
    for (const float value : first->tensors[i]) squares += double{value} * value;
    ASSERT_NEAR(counted, squares, squares * 1e-12);
  }
}

// `abandons`: how many of 100 Works.
void run_doubling_world(unsigned seed, unsigned abandons, int& done, int& given_up,
                        std::set<std::string>& phases) {
  std::mt19937 random(seed);
  const Pairing pairing = random() % 2 == 0 ? Pairing::doubling : Pairing::halving;
  const auto ranks = pairing == Pairing::halving ? static_cast<Rank>(2U << random() % 3)
                                                 : static_cast<Rank>(2 + random() % 8);
  auto make = [&](std::uint64_t number, Rank rank) { return part_of(number, rank, ranks, pairing); };
  LinkWorld world(ranks, make, random, abandons, 30);
  world.run(
      random, done, given_up, [&](const LinkPart& part) { check(part, ranks); },
      [&](const LinkPart& part) { phases.emplace(part.work->phase()); });
  for (const std::size_t plan : {0, 1}) {
    std::vector<LinkPart*> same;
    for (std::size_t i = plan; i < world.parts.size(); i += 2) same.push_back(world.parts[i].get());
    compare(same);
  }
}

TEST(DoublingAllreduce, GivesTheSameBitsInAnyInterleaving) {
  std::set<std::string> phases;
  expect_all_done([&](unsigned seed, unsigned abandons, int& done, int& given_up) {
    run_doubling_world(seed, abandons, done, given_up, phases);
  });
}

TEST(DoublingAllreduce, MayBeAbandonedInEveryPhase) {
  std::set<std::string> phases;
  expect_many_abandoned(600, [&](unsigned seed, unsigned abandons, int& done, int& given_up) {
    run_doubling_world(seed, abandons, done, given_up, phases);
  });
  for (const char* phase :
       {"packing tensors", "reducing by recursive doubling", "reducing by recursive halving",
        "passing on the result", "gathering", "unpacking tensors"})
    EXPECT_TRUE(phases.contains(phase)) << phase << " of " << testing::PrintToString(phases);
}

}  // namespace
}  // namespace rueda
