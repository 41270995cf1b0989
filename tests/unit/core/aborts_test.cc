// SPDX-License-Identifier: Apache-2.0
// How ranks hear of a Plan that failed somewhere, and that the job does not end before they have.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

Status words_of(Rank rank) { return Status::backend_error("no memory on rank " + std::to_string(rank)); }

// Every rank has been told once, in one rank's words.
void expect_told(const ControlWorld& world, std::uint64_t plan, const Status& status) {
  for (Rank rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(world.aborts(rank), (std::vector<Abort>{{plan, status}})) << "rank " << rank;
}

class AbortsTest : public testing::TestWithParam<Rank> {};

TEST_P(AbortsTest, ReachEveryRankAndTheNextPlanGoesOn) {
  const Rank size = GetParam();
  ControlWorld world(size, 3u + size);
  world.submit_everywhere(request_for("x"));
  world.settle();
  world.node(size - 1).abort(1, words_of(size - 1));
  world.settle();
  expect_told(world, 1, words_of(size - 1));
  world.submit_everywhere(request_for("x"));
  world.settle();
  world.expect_same_plans();
  EXPECT_EQ(world.plans(size - 1).size(), 2u);
}

TEST_P(AbortsTest, OfSeveralRanksOneIsHeard) {
  const Rank size = GetParam();
  for (unsigned seed = 0; seed < 10; ++seed) {
    ControlWorld world(size, seed);
    world.submit_everywhere(request_for("x"));
    world.settle();
    for (Rank rank = 0; rank < size; ++rank) {
      world.node(rank).abort(1, words_of(rank));
      world.collect(rank);
      if (world.random()() % 4 == 0) world.deliver_one();
    }
    const std::size_t before = world.messages();
    world.settle();
    ASSERT_FALSE(world.aborts(0).empty());
    expect_told(world, 1, world.aborts(0).front().status);
    // Once up and once down each edge at most.
    EXPECT_LE(world.messages() - before, 2u * static_cast<unsigned>(size));
  }
}

TEST_P(AbortsTest, ComeBeforeTheEnd) {
  const Rank size = GetParam();
  ControlWorld world(size, 5);
  world.submit_everywhere(request_for("x"));
  world.settle();
  // All have departed; the Work of one rank is still under way, and fails.
  const Rank last = size - 1;
  for (Rank rank = 0; rank < size; ++rank) {
    world.node(rank).depart(world.now);
    if (rank != last) world.node(rank).rest();
  }
  world.settle();
  EXPECT_FALSE(world.node(0).ended());
  world.node(last).abort(1, words_of(last));
  world.settle();
  expect_told(world, 1, words_of(last));
  world.node(last).rest();
  world.settle();
  for (Rank rank = 0; rank < size; ++rank) EXPECT_TRUE(world.node(rank).ended()) << rank;
}

INSTANTIATE_TEST_SUITE_P(Sizes, AbortsTest, testing::Values(1, 2, 3, 8, 34, 100));

TEST(Aborts, OfThousandsOfPlansAreAllHeard) {
  ControlWorld world(3, 7);
  for (std::uint64_t plan = 1; plan <= 3000; ++plan) {
    world.submit_everywhere(request_for("x"));
    world.settle();
    for (Rank rank : {2, 1}) world.node(rank).abort(plan, words_of(rank));
    world.settle();
    ASSERT_EQ(world.aborts(2).size(), plan);
  }
  EXPECT_EQ(world.aborts(0), world.aborts(1));
  EXPECT_EQ(world.aborts(0), world.aborts(2));
}

TEST(Aborts, OfAPlanThatDoesNotExistAreRefused) {
  for (Rank from : {0, 1}) {
    ControlWorld world(2, 9);
    world.node(1 - from).receive(from, encode(Abort{1, words_of(0)}), world.now);
    EXPECT_NE(world.node(1 - from).failure().message.find("a Plan that does not exist"), std::string::npos);
    EXPECT_TRUE(world.node(1 - from).take_aborts().empty());
  }
}

}  // namespace
}  // namespace rueda
