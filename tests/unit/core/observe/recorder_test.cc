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

using testing::HasSubstr;
using testing::Not;

ConstBytes bytes_of(const RecorderPage& page) {
  return {reinterpret_cast<const std::byte*>(&page), sizeof page};
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
  recorder.submitted("x", "allreduce", 4000);
  recorder.started(recorder.submitted("y", "broadcast", 8));
  recorder.completed(recorder.submitted("z", "barrier"), false);
  recorder.doing("reducing around the ring");
  const std::string report = recorder.report();
  EXPECT_THAT(report, HasSubstr("the background thread is reducing around the ring\n"));
  EXPECT_THAT(report, HasSubstr("allreduce 'x', not yet submitted by every rank (4000 bytes)\n"));
  EXPECT_THAT(report, HasSubstr("broadcast 'y', moving data (8 bytes)\n"));
  EXPECT_THAT(report, HasSubstr("failed: barrier 'z'\n"));
  EXPECT_LT(report.find("'x'"), report.find("'y'"));
  recorder.doing("idle");
  EXPECT_THAT(recorder.report(), HasSubstr("the background thread is idle\n"));
}

TEST(Recorder, NumbersWhatIsSubmitted) {
  Recorder recorder;
  const Flight first = recorder.submitted("x", "allreduce", 12),
               second = recorder.submitted("x", "allreduce");
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
  recorder.identify(7);
  recorder.submitted("stuck", "allreduce");
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "x" + std::to_string(i);
    recorder.completed(recorder.submitted(name, "allreduce"), true);
  }
  const std::optional<Recording> recording = read_recording(bytes_of(*page));
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->rank, 7);
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
  for (int i = 0; i < all; ++i) flights.push_back(recorder.submitted("x" + std::to_string(i), "allreduce"));
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
  recorder.submitted(name, "an operation with a long name");
  recorder.submitted(std::string(RecorderPage::kNameBytes, 'n'), "allreduce");
  const std::optional<Recording> recording = read_recording(bytes_of(*page));
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->in_flight[0].name.size(), RecorderPage::kNameBytes);
  EXPECT_TRUE(recording->in_flight[0].name.starts_with("first"));
  EXPECT_TRUE(recording->in_flight[0].name.ends_with("last"));
  EXPECT_EQ(recording->in_flight[0].operation, "an operation wit");
  EXPECT_EQ(recording->in_flight[1].name, std::string(RecorderPage::kNameBytes, 'n'));
}

TEST(RecorderPage, AWriterThatDiedWhileWritingLosesThatEntryOnly) {
  auto page = std::make_shared<RecorderPage>();
  Recorder recorder;
  recorder.use_page(page);
  recorder.submitted("whole", "allreduce");
  recorder.submitted("torn", "allreduce");
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
  while (name.size() < 40 + operation.bytes % 60) name += "-" + number;
  return operation.name == name && operation.operation == "op" + number.substr(0, 8);
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
      while (name.size() < 40 + i % 1000 % 60) name += "-" + number;
      const Flight flight = recorder.submitted(name, "op" + number, i % 1000);
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
    for (const std::string& line : read_recorder_page(bytes_of(page)))
      for (char letter : line) ASSERT_TRUE(letter < 0 || letter >= ' ');
  }
}

}  // namespace
}  // namespace rueda
