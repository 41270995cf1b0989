// SPDX-License-Identifier: Apache-2.0
// What a rank records of itself, and what others can read of it after its death.
#include "core/observe/recorder.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace rueda {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

ConstBytes bytes_of(const RecorderPage& page) {
  return {reinterpret_cast<const std::byte*>(&page), sizeof page};
}

Request request_of(Operation operation, Shape shape = {}, DataType dtype = DataType::float32) {
  Request request;
  request.operation = operation;
  request.shape = std::move(shape);
  request.dtype = dtype;
  return request;
}

// What a peer finds when the writer is killed at any moment: the words as they are, in ascending order.
void copy_words(const RecorderPage& from, RecorderPage& to) {
  const auto* source = reinterpret_cast<const std::uint64_t*>(&from);
  auto* target = reinterpret_cast<std::uint64_t*>(&to);
  for (std::size_t i = 0; i < sizeof from / sizeof *source; ++i) target[i] = load_word(source[i]);
}

TEST(Recorder, TellsWhatIsInFlightAndWhatHasEnded) {
  Recorder recorder;
  EXPECT_THAT(recorder.report(), HasSubstr("the background thread is starting\n  nothing is in flight\n"
                                           "  nothing has completed\n"));
  recorder.submitted("x", request_of(Operation::allreduce, {1000}));
  recorder.started(recorder.submitted("y", request_of(Operation::broadcast, {2})));
  recorder.planned(recorder.submitted("w", request_of(Operation::broadcast, {3})), 5);
  recorder.completed(recorder.submitted("z", request_of(Operation::barrier)), false);
  recorder.doing("reducing around the ring");
  const std::string report = recorder.report();
  EXPECT_THAT(report, HasSubstr("the background thread is reducing around the ring\n"));
  EXPECT_THAT(report, HasSubstr("allreduce 'x', not yet submitted by every rank (4000 bytes)\n"));
  EXPECT_THAT(report, HasSubstr("broadcast 'y', moving data (8 bytes)\n"));
  EXPECT_THAT(report, HasSubstr("broadcast 'w', waiting for its turn (12 bytes)\n"));
  EXPECT_THAT(report, HasSubstr("failed: barrier 'z'\n"));
  EXPECT_LT(report.find("'x'"), report.find("'y'"));
  recorder.doing("idle");
  EXPECT_THAT(recorder.report(), HasSubstr("the background thread is idle\n"));
}

// The whole text: others print it.
TEST(Recorder, TellsTheOldestInFlightInALine) {
  const std::string seconds = " for [0-9]+\\.[0-9] s, ";
  Recorder recorder;
  EXPECT_EQ(recorder.summary(), "has completed nothing yet; has nothing in flight, the program is elsewhere");
  const Flight x = recorder.submitted("x", request_of(Operation::allreduce));
  EXPECT_THAT(recorder.summary(), MatchesRegex("has completed nothing yet; is in allreduce 'x'" + seconds +
                                               "which not every rank has submitted"));
  recorder.planned(x, 5);
  EXPECT_THAT(recorder.summary(), EndsWith(" s, which waits for its turn"));
  recorder.started(x);
  recorder.doing("reducing values of other ranks");
  EXPECT_THAT(recorder.summary(), EndsWith(" s, reducing values of other ranks"));
}

TEST(Recorder, NumbersWhatIsSubmitted) {
  Recorder recorder;
  const Flight first = recorder.submitted("x", request_of(Operation::allreduce, {3})),
               second = recorder.submitted("x", request_of(Operation::allreduce));
  EXPECT_EQ(first.bytes, 12u);
  EXPECT_GT(first.submitted_ns, 0);
  EXPECT_EQ(first.ticket, 0u);
  EXPECT_EQ(second.ticket, 1u);
  EXPECT_NE(first.slot, second.slot);
}

TEST(Recorder, WhatHangsStaysVisibleHoweverMuchEndsAfterIt) {
  auto page = std::make_shared<RecorderPage>();
  Recorder recorder;
  recorder.use_page(page);
  recorder.identify(7, 9, 3);
  recorder.submitted("stuck", request_of(Operation::allreduce));
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "x" + std::to_string(i);
    recorder.completed(recorder.submitted(name, request_of(Operation::allreduce)), true);
  }
  const std::optional<Recording> recording = read_recording(bytes_of(*page));
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->rank, 7);
  EXPECT_EQ(recording->size, 9);
  EXPECT_EQ(recording->job, 3u);
  ASSERT_EQ(recording->in_flight.size(), 1u);
  EXPECT_EQ(recording->in_flight[0].name, "stuck");
  ASSERT_EQ(recording->ended.size(), RecorderPage::kSlots - 1);
  EXPECT_EQ(recording->ended.back().name, "x4999");
  EXPECT_EQ(recording->ended.front().name, "x" + std::to_string(5000 - RecorderPage::kSlots + 1));
}

TEST(Recorder, CountsWhatFindsNoSlot) {
  Recorder recorder;
  const int all = RecorderPage::kSlots + 20;
  std::vector<Flight> flights;
  for (int i = 0; i < all; ++i)
    flights.push_back(recorder.submitted("x" + std::to_string(i), request_of(Operation::allreduce)));
  EXPECT_THAT(recorder.report(), HasSubstr("and " + std::to_string(all - 8) + " more in flight"));
  for (const Flight& flight : flights) recorder.completed(flight, true);
  EXPECT_THAT(recorder.report(), HasSubstr("nothing is in flight"));
  EXPECT_THAT(recorder.report(), Not(HasSubstr("more in flight")));
}

TEST(Recorder, ShortensLongNamesInTheMiddle) {
  const std::string name = "first" + std::string(300, '.') + "last";
  auto page = std::make_shared<RecorderPage>();
  Recorder recorder;
  recorder.use_page(page);
  recorder.submitted(name, request_of(Operation::allgather));
  recorder.submitted(std::string(RecorderPage::kNameBytes, 'n'), request_of(Operation::allreduce));
  const std::optional<Recording> recording = read_recording(bytes_of(*page));
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->in_flight[0].name.size(), RecorderPage::kNameBytes);
  EXPECT_TRUE(recording->in_flight[0].name.starts_with("first"));
  EXPECT_TRUE(recording->in_flight[0].name.ends_with("last"));
  EXPECT_EQ(recording->in_flight[0].operation, Operation::allgather);
  EXPECT_EQ(recording->in_flight[1].name, std::string(RecorderPage::kNameBytes, 'n'));
}

TEST(Recorder, TellsThePlanAndTheTermsOfAnOperation) {
  Recorder recorder;
  Request request = request_of(Operation::broadcast, {2, 3, 4, 5, 6}, DataType::int64);
  request.root = 3;
  request.process_set = 0xffff0001;
  recorder.planned(recorder.submitted("x", request), 17);
  recorder.submitted("y", request_of(Operation::allreduce, {std::int64_t{1} << 40}));
  recorder.submitted("scalar", request_of(Operation::allreduce));
  const std::optional<Recording> recording = read_recording(recorder.page());
  ASSERT_TRUE(recording);
  ASSERT_EQ(recording->in_flight.size(), 3u);
  const RecordedOperation& operation = recording->in_flight[0];
  EXPECT_EQ(operation.plan, 17u);
  EXPECT_EQ(operation.dtype, DataType::int64);
  EXPECT_EQ(operation.root, 3);
  EXPECT_EQ(operation.process_set, 0xffff0001);
  EXPECT_EQ(operation.bytes, 5760u);
  EXPECT_THAT(operation.shape, testing::ElementsAre(2, 3, 4, 30));
  EXPECT_EQ(recording->in_flight[1].plan, 0u);
  EXPECT_THAT(recording->in_flight[1].shape, testing::ElementsAre(std::int64_t{1} << 40));
  EXPECT_THAT(recording->in_flight[2].shape, testing::IsEmpty());
}

TEST(Recorder, TellsUpToWhichPlanItHasForgottenOperations) {
  Recorder recorder;
  const auto forgotten = [&] { return read_recording(recorder.page())->forgotten_plan; };
  for (std::uint64_t plan = 1; plan <= RecorderPage::kSlots; ++plan) {
    const Flight flight = recorder.submitted("x", request_of(Operation::allreduce));
    recorder.planned(flight, plan);
    recorder.completed(flight, true);
  }
  EXPECT_EQ(forgotten(), 0u);
  std::vector<Flight> flights;
  for (int i = 0; i < 10; ++i) flights.push_back(recorder.submitted("y", request_of(Operation::allreduce)));
  EXPECT_EQ(forgotten(), 10u);
  for (std::size_t i = 10; i <= RecorderPage::kSlots; ++i)
    flights.push_back(recorder.submitted("y", request_of(Operation::allreduce)));
  recorder.planned(flights.back(), 5000);
  EXPECT_EQ(forgotten(), 5000u);
}

TEST(Recorder, TellsProcessSetsAsLongAsTheyAreThere) {
  Recorder recorder;
  RankSet some(2, 5);
  some.add(RankSet::of(1000));
  recorder.note_set(1, some);
  recorder.note_set(2, RankSet(0, 2000));
  recorder.note_set(3, RankSet::of(7));
  recorder.note_set(3, {});
  const std::optional<Recording> recording = read_recording(recorder.page());
  ASSERT_TRUE(recording);
  ASSERT_EQ(recording->sets.size(), 2u);
  EXPECT_EQ(recording->sets[0].id, 1u);
  EXPECT_THAT(recording->sets[0].members, testing::ElementsAre(2, 3, 4, 1000));
  EXPECT_EQ(recording->sets[1].count, 2000);
  EXPECT_THAT(recording->sets[1].members, testing::IsEmpty());
  EXPECT_FALSE(recording->ended_in_order);
  recorder.end_in_order();
  EXPECT_TRUE(read_recording(recorder.page())->ended_in_order);
}

TEST(RecorderPage, AWriterThatDiedWhileWritingLosesThatEntryOnly) {
  auto page = std::make_shared<RecorderPage>();
  Recorder recorder;
  recorder.use_page(page);
  recorder.submitted("whole", request_of(Operation::allreduce));
  recorder.submitted("torn", request_of(Operation::allreduce));
  ++page->slots[1].begun;
  const std::optional<Recording> recording = read_recording(bytes_of(*page));
  ASSERT_TRUE(recording);
  ASSERT_EQ(recording->in_flight.size(), 1u);
  EXPECT_EQ(recording->in_flight[0].name, "whole");
}

// Every entry that is written here has a name that belongs to its number of bytes.
bool is_whole(const RecordedOperation& operation) {
  const std::string number = std::to_string(operation.bytes);
  std::string name = number;
  while (name.size() < 30 + operation.bytes % 60) name += "-" + number;
  const auto elements = static_cast<std::int64_t>(operation.bytes);
  return operation.name == name && operation.shape == std::vector<std::int64_t>{elements} &&
         operation.operation == (elements % 2 == 0 ? Operation::allreduce : Operation::allgather);
}

TEST(RecorderPage, AReaderGetsWholeEntriesAtAnyMoment) {
  auto page = std::make_shared<RecorderPage>();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    Recorder recorder;
    recorder.use_page(page);
    for (std::uint64_t i = 0; !stop.load(); ++i) {
      const std::string number = std::to_string(i % 1000);
      std::string name = number;
      while (name.size() < 30 + i % 1000 % 60) name += "-" + number;
      const Flight flight =
          recorder.submitted(name, request_of(i % 2 == 0 ? Operation::allreduce : Operation::allgather,
                                              {static_cast<std::int64_t>(i % 1000)}, DataType::uint8));
      recorder.planned(flight, i + 1);
      recorder.doing(i % 2 == 0 ? "even" : "something else that is odd");
      recorder.started(flight);
      recorder.completed(flight, i % 3 != 0);
    }
  });
  RecorderPage copy;
  std::size_t seen = 0;
  for (int round = 0; round < 300 || seen < 1000; ++round) {
    copy_words(*page, copy);  // as after a SIGKILL: nobody goes on writing
    for (const ConstBytes bytes : {bytes_of(copy), bytes_of(*page)}) {
      const std::optional<Recording> recording = read_recording(bytes);
      if (!recording) continue;  // the writer has not begun
      for (const auto* operations : {&recording->in_flight, &recording->ended}) {
        for (const RecordedOperation& operation : *operations) {
          ASSERT_TRUE(is_whole(operation)) << operation.name << " " << operation.bytes;
          ++seen;
        }
      }
      EXPECT_THAT(recording->activity, testing::AnyOf("", "starting", "even", "something else that is odd"));
    }
  }
  stop = true;
  writer.join();
}

TEST(RecorderPage, AnyBytesAreReadWithinBounds) {
  EXPECT_FALSE(read_recording({}));
  RecorderPage page{};
  page.magic = 1;
  EXPECT_FALSE(read_recording(bytes_of(page)));
  EXPECT_FALSE(read_recording(bytes_of(page).first(sizeof page - 8)));
  EXPECT_EQ(read_recorder_page({}), std::vector<std::string>{"  no recording of this version of Rueda"});
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    auto* words = reinterpret_cast<std::uint64_t*>(&page);
    for (std::size_t i = 0; i < sizeof page / 8; ++i) words[i] = random();
    page.magic = RecorderPage::kMagic;
    page.version = RecorderPage::kVersion;
    page.activity.begun = page.activity.finished = 1;
    for (RecorderPage::Slot& slot : page.slots) slot.begun = slot.finished;
    EXPECT_GE(read_recorder_page(bytes_of(page)).size(), 2u);
    for (RecorderPage::Set& set : page.sets) set.begun = set.finished;
    EXPECT_LE(read_recording(bytes_of(page))->sets.size(), RecorderPage::kSets);
    for (const std::string& line : read_recorder_page(bytes_of(page)))
      for (char letter : line) ASSERT_TRUE(letter < 0 || letter >= ' ');
  }
}

}  // namespace
}  // namespace rueda
