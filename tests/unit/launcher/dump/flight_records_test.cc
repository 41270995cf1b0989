// SPDX-License-Identifier: Apache-2.0
// Records for torchfrtrace; tests/python/test_dump.py lets it read them.
#include "launcher/dump/flight_records.h"

#include <gmock/gmock.h>

#include "core/control/messages/message_pair.h"
#include "launcher/dump/pickle_writer.h"
#include "tests/unit/launcher/dump/recorded_ranks.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using testing::Not;

// The beginning and the end of a pickle, without the values around them.
template <class Write>
std::string part_of_pickle(Write write) {
  PickleWriter writer;
  write(writer);
  const std::string whole = writer.take();
  return whole.substr(2, whole.size() - 3);
}

std::string has_text(const char* key, const char* value) {
  return part_of_pickle([&](PickleWriter& writer) {
    writer.put(key);
    writer.put(value);
  });
}

std::string has_sizes(const char* key, const std::vector<std::int64_t>& sizes) {
  return part_of_pickle([&](PickleWriter& writer) {
    writer.put(key);
    writer.begin_list();
    writer.begin_list();
    for (const std::int64_t size : sizes) writer.put(size);
    writer.end_list();
    writer.end_list();
  });
}

std::string record_of(RecordedRanks& ranks, Rank rank) {
  return flight_record(job_groups(ranks.recordings()), rank);
}

TEST(FlightRecord, HasTorchsNamesAndSizes) {
  RecordedRanks ranks(2);
  ranks.complete(RecordedRanks::request("g", Operation::allgather, {3, 5}), 1);
  ranks.complete(RecordedRanks::request("s", Operation::reducescatter, {4, 7}), 2);
  const std::string record = record_of(ranks, 0);
  EXPECT_THAT(record, HasSubstr(has_text("version", "2.10")));
  EXPECT_THAT(record, HasSubstr(has_text("ranks", "[0, 1]")));
  EXPECT_THAT(record, HasSubstr(has_text("profiling_name", "nccl:all_gather")));
  EXPECT_THAT(record, HasSubstr(has_sizes("input_sizes", {3, 5})));
  EXPECT_THAT(record, HasSubstr(has_sizes("output_sizes", {6, 5})));
  EXPECT_THAT(record, HasSubstr(has_text("profiling_name", "nccl:reduce_scatter")));
  EXPECT_THAT(record, HasSubstr(has_sizes("output_sizes", {2, 7})));
  EXPECT_THAT(record, HasSubstr(has_text("state", "completed")));
}

TEST(FlightRecord, RowsThatMayDifferCountAsOneARank) {
  RecordedRanks ranks(2);
  ranks.complete(0, RecordedRanks::request("g", Operation::allgather, {3, 5}), 1);
  ranks.complete(1, RecordedRanks::request("g", Operation::allgather, {4, 5}), 1);
  ranks.complete(RecordedRanks::request("s", Operation::reducescatter, {5, 7}), 2);
  const std::string record = record_of(ranks, 1);
  EXPECT_THAT(record, HasSubstr(has_sizes("input_sizes", {1, 5})));
  EXPECT_THAT(record, HasSubstr(has_sizes("output_sizes", {2, 5})));
  EXPECT_THAT(record, HasSubstr(has_sizes("input_sizes", {2, 7})));
  EXPECT_THAT(record, HasSubstr(has_sizes("output_sizes", {1, 7})));
}

TEST(FlightRecord, AMessageHasASenderAndAReceiver) {
  RecordedRanks ranks(4);
  const Request message = RecordedRanks::request("m", Operation::message, {4}, MessagePair{3, 1}.id());
  for (const Rank rank : {1, 3}) ranks.submit(rank, message);
  EXPECT_THAT(record_of(ranks, 3), HasSubstr(has_text("profiling_name", "nccl:send 1->0")));
  EXPECT_THAT(record_of(ranks, 1), HasSubstr(has_text("profiling_name", "nccl:recv 0<-1")));
  EXPECT_THAT(record_of(ranks, 1), HasSubstr(has_text("state", "scheduled")));
  EXPECT_THAT(record_of(ranks, 0), Not(HasSubstr("messages of")));
}

TEST(FlightRecord, LeavesOutOperationsThatSomeRankCannotHave) {
  RecordedRanks ranks(2);
  ranks.submit(1, RecordedRanks::request("join", Operation::join));
  ranks.complete(0, RecordedRanks::request("x"), 1);
  const std::string record = record_of(ranks, 0);
  EXPECT_THAT(record, Not(HasSubstr("profiling_name")));
}

TEST(FlightRecord, AFailedOperationIsNotComplete) {
  RecordedRanks ranks(1);
  const Flight flight = ranks.submit(0, RecordedRanks::request("x"));
  ranks.of(0).started(flight);
  ranks.of(0).completed(flight, false);
  EXPECT_THAT(record_of(ranks, 0), HasSubstr(has_text("state", "started")));
}

}  // namespace
}  // namespace rueda
