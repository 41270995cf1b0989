// SPDX-License-Identifier: Apache-2.0
// Reports of stalls, in simulation.
#include "core/control/negotiation/stall_inspector.h"

#include <gtest/gtest.h>

#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

TEST(Stalls, AreReportedOnceWithWhatTheMissingAreDoing) {
  using std::chrono::milliseconds;
  ControlWorld world(40, 61, {.stall_report = milliseconds(3000)});
  const RankSet late = RankSet(13, 15);
  world.own_state = [&](Rank rank, const Asked& asked) {
    return StallInspector::OwnState{true,
                                    !late.contains(rank),
                                    {},
                                    "rests since '" + asked.key.name + "' of rank " + std::to_string(rank)};
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

TEST(Stalls, AllRanksHearOfTheMissing) {
  using std::chrono::milliseconds;
  ControlWorld world(40, 61, {.stall_report = milliseconds(3000)});
  world.own_state = [](Rank rank, const Asked&) {
    return StallInspector::OwnState{true, rank != 13, {}, "sleeps", rank == 13};
  };
  for (Rank rank = 0; rank < 40; ++rank)
    if (rank != 13) world.submit(rank, request_for("a"));
  world.settle_for(milliseconds(5000), milliseconds(100));
  EXPECT_TRUE(world.reports().empty()) << "it evaluates or saves";
  for (Rank rank = 0; rank < 40; ++rank) {
    const std::vector<Missing> missing = world.node(rank).take_missing();
    ASSERT_EQ(missing.size(), 1u) << rank;
    EXPECT_EQ(missing[0].operations, std::vector<Key>({{0, "a"}}));
    EXPECT_EQ(missing[0].words, "\n  not submitted by: rank 13\n  rank 13: sleeps");
  }
}

// Rank 2 has left an operation out, and so the others do not come to its next one.
TEST(Stalls, TheOldestIsToldFirst) {
  using std::chrono::milliseconds;
  ControlWorld world(3, 61, {.stall_report = milliseconds(3000)});
  world.own_state = [](Rank rank, const Asked& asked) {
    return StallInspector::OwnState{true, (rank == 2) == (asked.key.name == "a next"), {}, "waits"};
  };
  for (const Rank rank : {0, 1}) world.submit(rank, request_for("left out"));
  world.settle_for(milliseconds(200), milliseconds(100));
  world.submit(2, request_for("a next"));
  world.settle_for(milliseconds(5000), milliseconds(100));
  EXPECT_EQ(world.reports().size(), 2u);
  EXPECT_NE(world.node(0).oldest_report().find("'left out'"), std::string::npos);
  world.submit(2, request_for("left out"));
  world.settle_for(milliseconds(500), milliseconds(100));
  EXPECT_NE(world.node(0).oldest_report().find("'a next'"), std::string::npos);
}

TEST(Stalls, AJoinedRankWaitsAsLongAsTheOthersGoOn) {
  using std::chrono::milliseconds;
  ControlWorld world(3, 61, {.stall_report = milliseconds(3000)});
  world.own_state = [](Rank rank, const Asked&) {
    return StallInspector::OwnState{true, rank == 2, {}, "sleeps"};
  };
  Request join = request_for("join.0");
  join.operation = Operation::join;
  join.shape = {};
  world.submit(2, join);
  for (int step = 0; step < 20; ++step) {
    for (const Rank rank : {0, 1}) world.submit(rank, request_for("x"));
    world.settle_for(milliseconds(500), milliseconds(100));
  }
  EXPECT_TRUE(world.reports().empty());
  world.settle_for(milliseconds(5000), milliseconds(100));
  ASSERT_EQ(world.reports().size(), 1u);
  EXPECT_NE(world.reports()[0].find("not submitted by: ranks 0-1"), std::string::npos) << world.reports()[0];
}

TEST(Stalls, OfTwoThatBeginTogetherTheOneThatLacksFewerRanksIsToldFirst) {
  using std::chrono::milliseconds;
  ControlWorld world(3, 61, {.stall_report = milliseconds(3000)});
  world.own_state = [](Rank rank, const Asked& asked) {
    return StallInspector::OwnState{true, (rank == 2) == (asked.key.name == "a next"), {}, "waits"};
  };
  world.submit(2, request_for("a next"));
  world.settle_for(milliseconds(20), milliseconds(10));
  for (const Rank rank : {0, 1}) world.submit(rank, request_for("left out"));
  world.settle_for(milliseconds(5000), milliseconds(100));
  EXPECT_EQ(world.reports().size(), 2u);
  EXPECT_NE(world.node(0).oldest_report().find("not submitted by: rank 2"), std::string::npos);
}

TEST(Stalls, AReportIsOverOnceTheMissingHaveCome) {
  using std::chrono::milliseconds;
  ControlWorld world(3, 61, {.stall_report = milliseconds(3000)});
  world.own_state = [](Rank rank, const Asked&) {
    return StallInspector::OwnState{true, rank != 2, {}, "sleeps"};
  };
  for (const Rank rank : {0, 1}) world.submit(rank, request_for("a"));
  world.settle_for(milliseconds(2900), milliseconds(100));
  EXPECT_EQ(world.node(0).oldest_report(), "");
  world.settle_for(milliseconds(2000), milliseconds(100));
  ASSERT_EQ(world.reports().size(), 1u);
  EXPECT_NE(world.node(0).oldest_report(), "");
  world.submit(2, request_for("a"));
  world.settle_for(milliseconds(500), milliseconds(100));
  EXPECT_EQ(world.node(0).oldest_report(), "");
}

TEST(Stalls, ALimitEndsTheJobEverywhereWithTheSameWords) {
  using std::chrono::milliseconds;
  ControlWorld world(12, 67, {.stall_report = milliseconds(1000), .stall_fail = milliseconds(4000)});
  world.own_state = [](Rank rank, const Asked&) {
    return StallInspector::OwnState{true, rank != 11, {}, "is late"};
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

// Ranks 3 and 11 do not submit what the others wait for; both evaluate or save.
class Pausing {
 public:
  explicit Pausing(Duration fail = {}) : world(12, 79, {.stall_report = kCheck, .stall_fail = fail}) {
    world.own_state = [this](Rank rank, const Asked&) {
      const bool waits = rank != 3 && rank != 11;
      return StallInspector::OwnState{true, waits, {}, "saves", !waits && pausing.contains(rank)};
    };
    for (Rank rank = 0; rank < 12; ++rank) {
      if (rank == 3 || rank == 11) continue;
      world.submit(rank, request_for("a"));
      world.submit(rank, request_for("b"));
    }
  }

  void go_on_for(Duration time) { world.settle_for(time, std::chrono::milliseconds(100)); }

  static constexpr Duration kCheck = std::chrono::milliseconds(3000);
  ControlWorld world;
  RankSet pausing = RankSet(0, 12);
};

TEST(Stalls, WhileAllThatAreMissingPauseNothingIsReported) {
  using std::chrono::milliseconds;
  Pausing job;
  job.go_on_for(milliseconds(20'000));
  EXPECT_TRUE(job.world.reports().empty());
  EXPECT_EQ(job.world.node(0).oldest_report(), "");
  job.pausing = RankSet(0, 11);  // rank 11 has gone on, but does not come
  job.go_on_for(milliseconds(4500));
  ASSERT_EQ(job.world.reports().size(), 1u) << "both operations wait for the same";
  EXPECT_NE(job.world.reports()[0].find("rank 3: saves\n  rank 11: saves"), std::string::npos);
  EXPECT_NE(job.world.node(0).oldest_report(), "");
  job.go_on_for(milliseconds(20'000));
  EXPECT_EQ(job.world.reports().size(), 1u);
}

TEST(Stalls, APauseThatEndsInTimeIsNotReported) {
  using std::chrono::milliseconds;
  Pausing job;
  job.go_on_for(milliseconds(8000));
  for (const Rank rank : {3, 11}) {
    job.world.submit(rank, request_for("a"));
    job.world.submit(rank, request_for("b"));
  }
  const std::size_t messages = job.world.messages();
  job.go_on_for(milliseconds(10'000));
  EXPECT_TRUE(job.world.reports().empty());
  EXPECT_EQ(job.world.plans(0).size(), job.world.plans(11).size());
  EXPECT_LT(job.world.messages(), messages + 100) << "nobody asks any more";
}

TEST(Stalls, APauseOfOneRankDoesNotExcuseAnother) {
  using std::chrono::milliseconds;
  for (const bool is_silent : {false, true}) {
    Pausing job;
    if (is_silent) job.world.silence(11);
    if (!is_silent) job.pausing = RankSet::of(3);
    job.go_on_for(milliseconds(4900));
    EXPECT_EQ(job.world.reports().size(), 1u) << is_silent;
  }
}

TEST(Stalls, APauseDoesNotMoveTheLimitOfTheJob) {
  using std::chrono::milliseconds;
  Pausing job(milliseconds(8000));
  job.go_on_for(milliseconds(7900));
  EXPECT_TRUE(job.world.node(0).failure().ok());
  job.go_on_for(milliseconds(500));
  EXPECT_EQ(job.world.node(5).failure().code, StatusCode::stalled);
  EXPECT_NE(job.world.node(5).failure().message.find("not submitted by: ranks 3, 11"), std::string::npos);
  EXPECT_TRUE(job.world.reports().empty());
}

// Rank 0 has heard of it, but has no part of it.
TEST(Stalls, OfASetThatIsRemovedAreForgotten) {
  using std::chrono::milliseconds;
  ControlWorld world(
      4, 71, {.ranks_per_host = 2, .stall_report = milliseconds(500), .stall_fail = milliseconds(4000)});
  world.own_state = [](Rank rank, const Asked&) {
    return StallInspector::OwnState{rank >= 2, rank == 2, {}, "is late"};
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

// A job whose ranks are in the Work of Plan 7, all but some that have stopped; some may be through.
class StoppedInAWork {
 public:
  StoppedInAWork(Rank size, ControlWorld::Options options, const RankSet& stopped)
      : world(size, 73, options), stopped_(stopped) {
    world.own_state = [this](Rank rank, const Asked& asked) {
      if (asked.plan != 7 || through.contains(rank)) return StallInspector::OwnState{};
      return StallInspector::OwnState{true, true, moved, "is in the Work of '" + asked.key.name + "'"};
    };
    for (const Rank rank : ranks_of(stopped)) world.silence(rank);
  }

  // All who live look several times a second at a Work that has not moved since the beginning.
  void go_on_until(Duration end) {
    for (; world.now < Time{} + end; world.settle_for(std::chrono::milliseconds(100), kLook)) {
      for (Rank rank = 0; rank < world.size(); ++rank) {
        if (!stopped_.contains(rank) && !through.contains(rank))
          world.node(rank).notice_unmoved(request_, 7, moved, world.now);
      }
    }
  }

  ControlWorld world;
  RankSet through;
  Time moved{};  // all Works, last

 private:
  static constexpr Duration kLook = std::chrono::milliseconds(50);

  static std::vector<Rank> ranks_of(const RankSet& set) {
    std::vector<Rank> ranks;
    for (Rank i = 0; i < set.count(); ++i) ranks.push_back(set.at(i));
    return ranks;
  }

  const RankSet stopped_;
  const SharedRequest request_ = std::make_shared<const Request>(request_for("x"));
};

constexpr Duration kReport = std::chrono::milliseconds(3000);

TEST(Stalls, WhoHasStoppedInAWorkIsNamedOnce) {
  using std::chrono::milliseconds;
  StoppedInAWork job(40, {.stall_report = kReport}, RankSet::of(13));
  job.go_on_until(milliseconds(2900));
  EXPECT_TRUE(job.world.reports().empty());
  job.go_on_until(milliseconds(5000));
  ASSERT_EQ(job.world.reports().size(), 1u);
  const std::string& report = job.world.reports()[0];
  EXPECT_NE(report.find("allreduce 'x' has not moved for "), std::string::npos) << report;
  EXPECT_NE(report.find("waiting: ranks 0-12, 14-39"), std::string::npos) << report;
  EXPECT_NE(report.find("rank 0: is in the Work of 'x'"), std::string::npos) << report;
  EXPECT_NE(report.find("no answer from: rank 13\n  rank 13: process 113 on somewhere: stopped"),
            std::string::npos)
      << report;
  EXPECT_EQ(report.find("not submitted"), std::string::npos) << report;
  job.go_on_until(milliseconds(30000));
  EXPECT_EQ(job.world.reports().size(), 1u);
}

// Its nodes tell it: rank 0 itself can not, and who is below them has heard of it by then.
TEST(Stalls, RankZeroThatHasStoppedIsNamedByThoseBelowIt) {
  using std::chrono::milliseconds;
  StoppedInAWork job(12, {.ranks_per_host = 4, .stall_report = kReport}, RankSet::of(0));
  job.go_on_until(milliseconds(20000));
  // Ranks 1 to 3, and the leaders of the other hosts.
  ASSERT_EQ(job.world.reports().size(), 5u);
  for (const std::string& report : job.world.reports()) {
    EXPECT_NE(report.find("no answer from: rank 0\n  rank 0: process 100 on somewhere: stopped"),
              std::string::npos)
        << report;
  }
}

// Nobody but members of its host is in the Work: rank 0 never hears of it.
TEST(Stalls, ALeaderThatHasStoppedIsNamedByItsHost) {
  using std::chrono::milliseconds;
  StoppedInAWork job(8, {.ranks_per_host = 4, .stall_report = kReport}, RankSet::of(4));
  job.through = RankSet(0, 4);
  job.go_on_until(milliseconds(20000));
  ASSERT_EQ(job.world.reports().size(), 3u);
  for (const std::string& report : job.world.reports())
    EXPECT_NE(report.find("no answer from: rank 4\n"), std::string::npos) << report;
}

TEST(Stalls, ALimitEndsAJobThatStillDoesNotMove) {
  using std::chrono::milliseconds;
  StoppedInAWork job(8, {.stall_report = kReport, .stall_fail = milliseconds(8000)}, RankSet::of(5));
  job.go_on_until(milliseconds(7900));
  EXPECT_TRUE(job.world.node(0).failure().ok());
  job.go_on_until(milliseconds(10000));
  EXPECT_EQ(job.world.node(3).failure().code, StatusCode::stalled);
  EXPECT_NE(job.world.node(3).failure().message.find("no answer from: rank 5"), std::string::npos);
  EXPECT_EQ(job.world.reports().size(), 1u);
}

TEST(Stalls, ALimitDoesNotEndAJobThatHasGoneOn) {
  using std::chrono::milliseconds;
  StoppedInAWork job(8, {.stall_report = kReport, .stall_fail = milliseconds(8000)}, RankSet::of(5));
  job.go_on_until(milliseconds(6000));
  EXPECT_EQ(job.world.reports().size(), 1u);
  job.through = RankSet(0, 8);
  job.go_on_until(milliseconds(20000));
  EXPECT_TRUE(job.world.node(0).failure().ok()) << job.world.node(0).failure().message;
}

// Slow, but not stopped; later it stops again.
TEST(Stalls, AWorkThatHasMovedSinceIsNotWhatALimitIsFor) {
  using std::chrono::milliseconds;
  StoppedInAWork job(8, {.stall_report = kReport, .stall_fail = milliseconds(8000)}, RankSet::of(5));
  job.go_on_until(milliseconds(6000));
  EXPECT_EQ(job.world.reports().size(), 1u);
  job.moved = job.world.now;
  job.go_on_until(milliseconds(8500));
  EXPECT_TRUE(job.world.node(0).failure().ok()) << job.world.node(0).failure().message;
  job.go_on_until(milliseconds(11000));
  EXPECT_EQ(job.world.reports().size(), 2u);
  EXPECT_TRUE(job.world.node(0).failure().ok()) << job.world.node(0).failure().message;
  job.go_on_until(milliseconds(17000));
  EXPECT_EQ(job.world.node(3).failure().code, StatusCode::stalled);
}

}  // namespace
}  // namespace rueda
