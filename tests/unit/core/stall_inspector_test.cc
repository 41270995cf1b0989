// SPDX-License-Identifier: Apache-2.0
// Reports of stalls, in simulation.
#include "core/control/stall_inspector.h"

#include <gtest/gtest.h>

#include "tests/support/control_world.h"

namespace rueda {
namespace {

TEST(Stalls, AreReportedOnceWithWhatTheMissingAreDoing) {
  using std::chrono::milliseconds;
  ControlWorld world(40, 61, {.stall_report = milliseconds(3000)});
  const RankSet late = RankSet(13, 15);
  world.own_state = [&](Rank rank, const Key& key) {
    return StallInspector::OwnState{true, !late.contains(rank),
                                    "rests since '" + key.name + "' of rank " + std::to_string(rank)};
  };
  for (Rank rank = 0; rank < 40; ++rank) {
    if (late.contains(rank)) continue;
    world.submit(rank, request_for("a"));
    world.submit(rank, request_for("b"));
  }
  world.silence(14);
  world.settle_for(milliseconds(2900), milliseconds(100));
  EXPECT_TRUE(world.reports().empty());
  world.settle_for(milliseconds(2000), milliseconds(100));
  ASSERT_EQ(world.reports().size(), 1u);  // both names wait for the same
  const std::string& report = world.reports()[0];
  EXPECT_NE(report.find("allreduce 'a' and 1 operations more are not complete after"), std::string::npos)
      << report;
  EXPECT_NE(report.find("waiting: ranks 0-12, 15-39"), std::string::npos) << report;
  EXPECT_NE(report.find("not submitted by: rank 13\n"), std::string::npos) << report;
  EXPECT_NE(report.find("rank 13: rests since"), std::string::npos) << report;
  EXPECT_NE(report.find("no answer from: rank 14"), std::string::npos) << report;
  EXPECT_NE(report.find("rank 14: process 114 on somewhere"), std::string::npos) << report;
  world.settle_for(milliseconds(20000), milliseconds(500));
  EXPECT_EQ(world.reports().size(), 1u);
}

TEST(Stalls, ALimitEndsTheJobEverywhereWithTheSameWords) {
  using std::chrono::milliseconds;
  ControlWorld world(12, 67, {.stall_report = milliseconds(1000), .stall_fail = milliseconds(4000)});
  world.own_state = [](Rank rank, const Key&) {
    return StallInspector::OwnState{true, rank != 11, "is late"};
  };
  for (int round = 0; round < 2; ++round) {  // the second time it travels as a bit
    for (Rank rank = 0; rank < 11; ++rank) world.submit(rank, request_for("x"));
    if (round == 0) world.submit(11, request_for("x"));
    world.settle();
  }
  world.settle_for(milliseconds(3800), milliseconds(100));
  EXPECT_TRUE(world.node(0).failure().ok());
  world.settle_for(milliseconds(500), milliseconds(100));
  for (Rank rank = 0; rank < 12; ++rank) {
    EXPECT_EQ(world.node(rank).failure().code, StatusCode::stalled);
    EXPECT_EQ(world.node(rank).failure(), world.node(0).failure());
  }
  EXPECT_NE(world.node(5).failure().message.find("not submitted by: rank 11"), std::string::npos);
}

// Rank 0 has heard of it, but has no part of it.
TEST(Stalls, OfASetThatIsRemovedAreForgotten) {
  using std::chrono::milliseconds;
  ControlWorld world(
      4, 71, {.ranks_per_host = 2, .stall_report = milliseconds(500), .stall_fail = milliseconds(4000)});
  world.own_state = [](Rank rank, const Key&) {
    return StallInspector::OwnState{rank >= 2, rank == 2, "is late"};
  };
  Request add = request_for("process_set.add.0", {0});
  add.operation = Operation::add_process_set;
  add.members = RankSet(2, 4);
  world.submit_everywhere(add);
  world.settle();
  Request stalled = request_for("x");
  stalled.process_set = 1;
  world.submit(2, stalled);
  world.settle_for(milliseconds(2500), milliseconds(100));
  ASSERT_EQ(world.reports().size(), 1u);
  Request remove = request_for("process_set.remove.0", {0});
  remove.operation = Operation::remove_process_set;
  remove.root = 1;
  world.submit_everywhere(remove);
  world.settle_for(milliseconds(10000), milliseconds(100));
  EXPECT_TRUE(world.plans(0).back().status.ok()) << world.plans(0).back().status.message;
  EXPECT_TRUE(world.node(0).failure().ok()) << world.node(0).failure().message;
}

}  // namespace
}  // namespace rueda
