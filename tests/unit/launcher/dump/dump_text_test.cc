// SPDX-License-Identifier: Apache-2.0
// The words of a dump.
#include "launcher/dump/dump_text.h"

#include <gmock/gmock.h>

#include "tests/unit/launcher/dump/recorded_ranks.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using testing::Not;

DumpFacts facts_of(Rank size) {
  DumpFacts facts{.command = "train.py", .process = 4711, .reason = "", .unix_seconds = 1e9, .ranks = {}};
  for (Rank rank = 0; rank < size; ++rank)
    facts.ranks[rank] =
        "rank " + std::to_string(rank) + " (process " + std::to_string(100 + rank) + " on node1)";
  return facts;
}

std::string summary_of(RecordedRanks& ranks, DumpFacts facts) {
  const std::map<Rank, RankRecording> recordings = ranks.recordings();
  facts.unix_seconds = static_cast<double>(recordings.begin()->second.unix_ns) * 1e-9;
  return dump_summary(facts, job_groups(recordings), recordings);
}

TEST(DumpSummary, SaysThatNothingIsInFlight) {
  RecordedRanks ranks(2);
  ranks.complete(RecordedRanks::request("x"), 1);
  const std::map<Rank, RankRecording> recordings = ranks.recordings();
  EXPECT_EQ(dump_summary(facts_of(2), job_groups(recordings), recordings),
            "2001-09-09 01:46:40 UTC, ruedarun 4711, 2 ranks: train.py\nSomebody has asked for this.\n"
            "\nNo operation is in flight.\n");
}

TEST(DumpSummary, NamesRanksThatHaveNotSubmitted) {
  RecordedRanks ranks(4);
  for (const Rank rank : {0, 1, 3})
    ranks.submit(rank, RecordedRanks::request("x", Operation::allreduce, {2, 3}));
  const std::string text = summary_of(ranks, facts_of(4));
  EXPECT_THAT(text, HasSubstr("Waits for ranks\n  'x' of all ranks, allreduce of float32 [2, 3], for 0.0 s: "
                              "ranks 0-1, 3 have submitted it, rank 2 has not\n"));
  EXPECT_THAT(text, Not(HasSubstr("do not agree")));
}

TEST(DumpSummary, NamesRanksThatDiffer) {
  RecordedRanks ranks(3);
  for (const Rank rank : {0, 2}) ranks.submit(rank, RecordedRanks::request("x"));
  ranks.submit(1, RecordedRanks::request("x", Operation::allgather));
  EXPECT_THAT(summary_of(ranks, facts_of(3)),
              HasSubstr("Ranks do not agree on\n  'x' of all ranks:\n    allgather of float32 [4] on rank 1\n"
                        "    allreduce of float32 [4] on ranks 0, 2\n"));
}

TEST(DumpSummary, RowsOfAnAllgatherMayDiffer) {
  RecordedRanks ranks(2);
  ranks.complete(0, RecordedRanks::request("x", Operation::allgather, {2, 5}), 1);
  ranks.complete(1, RecordedRanks::request("x", Operation::allgather, {3, 5}), 1);
  EXPECT_THAT(summary_of(ranks, facts_of(2)), Not(HasSubstr("do not agree")));
  ranks.complete(0, RecordedRanks::request("y", Operation::allgather, {2, 5}), 2);
  ranks.complete(1, RecordedRanks::request("y", Operation::allgather, {2, 6}), 2);
  EXPECT_THAT(summary_of(ranks, facts_of(2)), HasSubstr("allgather of float32 [2, 6] on rank 1"));
}

TEST(DumpSummary, TellsHowFarEachRankIs) {
  RecordedRanks ranks(3);
  ranks.complete(0, RecordedRanks::request("x"), 7);
  for (const Rank rank : {1, 2}) {
    const Flight flight = ranks.submit(rank, RecordedRanks::request("x"));
    ranks.of(rank).planned(flight, 7);
    if (rank == 1) ranks.of(rank).started(flight);
  }
  EXPECT_THAT(
      summary_of(ranks, facts_of(3)),
      HasSubstr("Under way\n  'x' of all ranks, allreduce of float32 [4], for 0.0 s: has completed on "
                "rank 0, moves data on rank 1, waits for its turn on rank 2\n"));
}

TEST(DumpSummary, NamesRanksOfWhichNothingIsKnown) {
  RecordedRanks ranks(2);
  DumpFacts facts = facts_of(4);
  facts.reason = "rank 3 is lost";
  std::map<Rank, RankRecording> recordings = ranks.recordings();
  recordings[2] = {};
  const std::string text = dump_summary(facts, job_groups(recordings), recordings);
  EXPECT_THAT(text, HasSubstr("\nrank 3 is lost\n"));
  EXPECT_THAT(text, HasSubstr("Nothing has come from rank 3."));
  EXPECT_THAT(text, HasSubstr("known of rank 2: init() has not been called."));
}

TEST(DumpText, TellsOfEachRank) {
  RecordedRanks ranks(2);
  ranks.complete(RecordedRanks::request("x"), 1);
  ranks.of(1).doing("idle");
  const std::map<Rank, RankRecording> recordings = ranks.recordings();
  const std::string text = dump_text(facts_of(2), job_groups(recordings), recordings);
  EXPECT_THAT(text, HasSubstr("Ranks\nrank 0 (process 100 on node1)\n"));
  EXPECT_THAT(text, HasSubstr("rank 1 (process 101 on node1)\n  the background thread is idle\n"));
  EXPECT_THAT(text, HasSubstr("completed: allreduce 'x'"));
}

TEST(DumpText, IsBoundedHoweverManyOperationsWait) {
  RecordedRanks ranks(2);
  for (int i = 0; i < 200; ++i) ranks.submit(0, RecordedRanks::request("x" + std::to_string(i)));
  EXPECT_THAT(summary_of(ranks, facts_of(2)), HasSubstr("  and 180 more\n"));
}

}  // namespace
}  // namespace rueda
