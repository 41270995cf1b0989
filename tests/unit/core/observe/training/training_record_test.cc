// SPDX-License-Identifier: Apache-2.0
// A record and its reader in one process, and in two.
#include "core/observe/training/training_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/observe/recorder_page.h"

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<Phase> phases_of(const TrainingReading& reading) {
  std::vector<Phase> phases;
  for (const PhaseSpan& span : reading.spans) phases.push_back(span.phase);
  return phases;
}

TrainingReading read(const TrainingRecord& record, std::uint64_t spans_from = 0,
                     const std::vector<std::uint64_t>& points_from = {}) {
  const auto reading = read_training_page(record.page(), spans_from, points_from);
  EXPECT_TRUE(reading);
  return reading.value_or(TrainingReading());
}

TEST(TrainingRecord, SpansFollowOneAnotherWithoutGaps) {
  TrainingRecord record;
  const std::int64_t before = monotonic_ns();
  record.begin_phase(Phase::data);
  record.begin_phase(Phase::data);  // the same
  record.begin_phase(Phase::forward);
  record.begin_phase(Phase::backward);
  record.begin_phase(Phase::wait);
  record.begin_phase(Phase::step);
  record.end_step();
  record.begin_phase(Phase::data);
  const TrainingReading reading = read(record);
  EXPECT_THAT(phases_of(reading), ElementsAre(Phase::other, Phase::data, Phase::forward, Phase::backward,
                                              Phase::wait, Phase::step, Phase::forward));
  for (std::size_t i = 1; i < reading.spans.size(); ++i)
    EXPECT_EQ(reading.spans[i - 1].end_ns, reading.spans[i].begin_ns);
  for (const PhaseSpan& span : reading.spans) EXPECT_LE(span.begin_ns, span.end_ns);
  EXPECT_EQ(reading.spans[5].step, 0U) << "the optimizer's step belongs to the step that it ends";
  EXPECT_EQ(reading.spans[6].step, 1U);
  EXPECT_EQ(reading.step, 1U);
  EXPECT_EQ(reading.phase, Phase::data);
  EXPECT_EQ(reading.phase_since_ns, reading.spans.back().end_ns);
  EXPECT_GE(reading.phase_since_ns, before);
  EXPECT_EQ(reading.process_id, ::getpid());
}

TEST(TrainingRecord, AStepWithoutOtherMarksIsASpan) {
  TrainingRecord record;
  for (int i = 0; i < 3; ++i) record.end_step();
  EXPECT_THAT(phases_of(read(record)), ElementsAre(Phase::other, Phase::forward, Phase::forward));
  EXPECT_EQ(read(record).step, 3U);
}

// What a loop does before its samples come is no forward pass. A loop that does not mark them has none of
// this.
TEST(TrainingRecord, SamplesBeginTheForwardPass) {
  TrainingRecord record;
  const auto take_samples = [&] { record.leave_data(record.begin_phase(Phase::data)); };
  record.end_step();
  take_samples();
  EXPECT_EQ(read(record).phase, Phase::forward);
  record.begin_phase(Phase::backward);
  record.end_step();
  EXPECT_EQ(read(record).phase, Phase::other) << "the program logs";
  record.leave_phase(Phase::wait, record.begin_phase(Phase::wait));
  EXPECT_EQ(read(record).phase, Phase::other) << "of a metric";
  const Phase before = record.begin_phase(Phase::evaluation);
  take_samples();
  EXPECT_EQ(read(record).phase, Phase::evaluation) << "they are of the evaluation";
  record.leave_phase(Phase::evaluation, before);
  EXPECT_EQ(read(record).phase, Phase::other);
  take_samples();
  take_samples();
  EXPECT_EQ(read(record).phase, Phase::forward);
  record.end_step();
  record.begin_phase(Phase::backward);
  take_samples();
  EXPECT_EQ(read(record).phase, Phase::backward) << "those of the next step, ahead";
  record.end_step();
  EXPECT_EQ(read(record).phase, Phase::forward) << "nothing has marked samples between the steps";
}

// Two optimizers on the same samples, or the end of an epoch.
TEST(TrainingRecord, AStepWithoutSamplesOfItsOwnHasAForwardPass) {
  TrainingRecord record;
  record.leave_data(record.begin_phase(Phase::data));
  EXPECT_EQ(read(record).phase, Phase::forward) << "of the first step, too";
  record.begin_phase(Phase::backward);
  record.end_step();
  EXPECT_EQ(read(record).phase, Phase::other);
  record.begin_phase(Phase::backward);
  EXPECT_EQ(phases_of(read(record)),
            (std::vector{Phase::other, Phase::data, Phase::forward, Phase::backward, Phase::forward}));
  record.begin_phase(Phase::other);
  record.leave_data(record.begin_phase(Phase::data));
  record.end_step();
  record.leave_phase(Phase::data, record.begin_phase(Phase::data));
  EXPECT_EQ(read(record).phase, Phase::other) << "there were no more samples";
}

TEST(TrainingRecord, APauseIsToldToThoseThatWait) {
  TrainingRecord record;
  record.begin_phase(Phase::backward);
  EXPECT_EQ(record.pause_in_words(), "");
  EXPECT_FALSE(record.pauses(60));
  record.begin_phase(Phase::checkpoint);
  EXPECT_THAT(record.pause_in_words(), testing::MatchesRegex("checkpoint for [0-9]+\\.[0-9] s"));
  EXPECT_TRUE(record.pauses(0));
  record.leave_phase(Phase::checkpoint, Phase::forward);
  EXPECT_TRUE(record.pauses(60)) << "a moment ago";
  EXPECT_FALSE(record.pauses(0));
  record.note_stall("stalled after 3.3 s.\n  waiting: rank 0");
  EXPECT_EQ(read(record).stall, "stalled after 3.3 s; waiting: rank 0");
  record.note_failure("stalled after 8.0 s.\n  waiting: rank 0");
  EXPECT_EQ(read(record).failure, "stalled after 8.0 s; waiting: rank 0");
}

TEST(TrainingRecord, AProgramThatCountsItsStepsIsBelieved) {
  TrainingRecord record;
  record.end_unmarked_step();
  record.end_unmarked_step();
  EXPECT_EQ(read(record).step, 2U);
  record.end_step_of_program();
  EXPECT_EQ(read(record).step, 2U) << "it has been counted";
  record.begin_phase(Phase::step);
  record.end_unmarked_step();
  EXPECT_EQ(read(record).phase, Phase::forward);
  EXPECT_EQ(read(record).step, 2U) << "the program will count it";
  record.end_step_of_program();
  record.end_step_of_program();
  EXPECT_EQ(read(record).step, 4U);
}

TEST(TrainingRecord, TheCursorGivesOnlyNewSpans) {
  TrainingRecord record;
  record.begin_phase(Phase::data);
  const TrainingReading first = read(record);
  EXPECT_THAT(read(record, first.spans_written).spans, IsEmpty());
  record.begin_phase(Phase::forward);
  EXPECT_THAT(phases_of(read(record, first.spans_written)), ElementsAre(Phase::data));
  EXPECT_THAT(read(record, 1'000).spans, SizeIs(2)) << "the cursor of another page";
}

TEST(TrainingRecord, TheRingKeepsTheLastSpans) {
  TrainingRecord record;
  const std::size_t count = 3 * TrainingPage::kSpans / 2;
  for (std::size_t i = 0; i < count; ++i) record.begin_phase(i % 2 == 0 ? Phase::data : Phase::forward);
  const TrainingReading reading = read(record);
  EXPECT_EQ(reading.spans_written, count);
  ASSERT_THAT(reading.spans, SizeIs(TrainingPage::kSpans));
  for (std::size_t i = 1; i < reading.spans.size(); ++i)
    ASSERT_EQ(reading.spans[i - 1].end_ns, reading.spans[i].begin_ns) << "oldest first";
}

TEST(TrainingRecord, AScopeComesBackUnlessAnotherPhaseHasBegun) {
  TrainingRecord& record = TrainingRecord::of_process();
  const auto phase = [&] { return read(record).phase; };
  record.begin_phase(Phase::forward);
  {
    const PhaseScope data(Phase::data);
    {
      const PhaseScope garbage(Phase::garbage);
      EXPECT_EQ(phase(), Phase::garbage);
    }
    EXPECT_EQ(phase(), Phase::data);
  }
  EXPECT_EQ(phase(), Phase::forward);
  {
    const PhaseScope forward(Phase::data);
    record.begin_phase(Phase::backward);
  }
  EXPECT_EQ(phase(), Phase::backward);
}

TEST(TrainingRecord, TheRunIsDescribed) {
  TrainingRecord& record = TrainingRecord::of_process();
  describe_training(500, 32, 120);
  EXPECT_EQ(read(record).total_steps, 500U);
  EXPECT_EQ(read(record).samples_per_step, 32U);
  end_step();
  EXPECT_EQ(read(record).step, 121U);
  describe_training(600, 16);
  EXPECT_EQ(read(record).total_steps, 600U);
  EXPECT_EQ(read(record).step, 121U) << "steps go on";
  EXPECT_ANY_THROW(describe_training(-1, 16));
  EXPECT_ANY_THROW(describe_training(1, -16));
  record.set_clock_offset(-17);
  EXPECT_EQ(read(record).clock_offset_ns, -17);
}

TEST(TrainingRecord, ScalarsAreCurves) {
  TrainingRecord record;
  record.log("loss", 0.5, 1);
  record.log("rate", 1e-4, 1);
  record.end_step();
  record.log("loss", std::numeric_limits<double>::quiet_NaN(), -1);
  record.log("loss", -std::numeric_limits<double>::infinity(), 7);
  const TrainingReading reading = read(record);
  ASSERT_THAT(reading.curves, SizeIs(2));
  EXPECT_EQ(reading.curves[0].tag, "loss");
  EXPECT_EQ(reading.curves[1].tag, "rate");
  const std::vector<ScalarPoint>& loss = reading.curves[0].points;
  ASSERT_THAT(loss, SizeIs(3));
  EXPECT_EQ(loss[0].value, 0.5);
  EXPECT_EQ(loss[0].step, 1U);
  EXPECT_TRUE(std::isnan(loss[1].value));
  EXPECT_EQ(loss[1].step, 1U) << "the present step";
  EXPECT_EQ(loss[2].value, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(loss[2].step, 7U);
  EXPECT_GT(loss[0].seconds, 1.7e9);
  const TrainingReading later = read(record, 0, {2});
  EXPECT_THAT(later.curves[0].points, SizeIs(1));
  EXPECT_THAT(later.curves[1].points, SizeIs(1)) << "a curve beyond the cursors";
  EXPECT_THAT(read(record, 0, {3, 1}).curves[1].points, IsEmpty());
}

TEST(TrainingRecord, ALongCurveIsThinnedEvenlyAndWhole) {
  TrainingRecord record;
  std::uint64_t stride = 1, most = 0;
  for (std::uint64_t number = 0; number < 20'000; ++number) {
    record.log("loss", static_cast<double>(number), static_cast<std::int64_t>(number));
    if (number == stride * TrainingPage::kPoints) stride *= 2;
    if (number % 37 != 0 && number % 512 > 1) continue;
    const ScalarCurve curve = read(record).curves.at(0);
    ASSERT_EQ(curve.logged, number + 1);
    ASSERT_EQ(curve.points.size(), number / stride + 1) << number;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      ASSERT_EQ(curve.points[i].number, i * stride);
      ASSERT_EQ(curve.points[i].step, i * stride);
      ASSERT_EQ(curve.points[i].value, static_cast<double>(i * stride));
    }
    most = std::max<std::uint64_t>(most, curve.points.size());
  }
  EXPECT_EQ(most, TrainingPage::kPoints);
}

TEST(TrainingRecord, TagsAreBounded) {
  TrainingRecord record;
  const std::string long_tag = std::string(TrainingPage::kTagBytes - 1, 'a') + "\xc3\xa4 and more";
  record.log(long_tag, 1, 0);
  record.log(long_tag, 2, 1);
  record.log(std::string("zero\0byte", 9), 3, 0);
  record.log(std::string("zero\0byte", 9), 4, 1);
  record.log("two\nlines\x7f", 5, 0);
  for (int i = 0; i < 100; ++i) record.log(fmt::format("tag {}", i), i, 0);
  record.log("loss of the 65th", 6, 0);
  const TrainingReading reading = read(record);
  ASSERT_THAT(reading.curves, SizeIs(TrainingPage::kTags));
  EXPECT_EQ(reading.curves[0].tag, std::string(TrainingPage::kTagBytes - 1, 'a')) << "no half character";
  EXPECT_THAT(reading.curves[0].points, SizeIs(2));
  EXPECT_EQ(reading.curves[1].tag, "zero");
  EXPECT_THAT(reading.curves[1].points, SizeIs(2));
  EXPECT_EQ(reading.curves[2].tag, "two?lines?");
  EXPECT_EQ(reading.curves[63].tag, "tag 60");
}

TEST(TrainingRecord, AnotherProcessMapsTheMemoryAndCannotShrinkIt) {
  auto record = std::make_unique<TrainingRecord>();
  ASSERT_GE(record->descriptor(), 0);
  record->log("loss", 0.25, 3);
  struct stat about {};
  ASSERT_EQ(::fstat(record->descriptor(), &about), 0);
  EXPECT_EQ(about.st_size, static_cast<off_t>(sizeof(TrainingPage)));
  EXPECT_EQ(::fcntl(record->descriptor(), F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_NE(::ftruncate(record->descriptor(), 0), 0);
  void* memory = ::mmap(nullptr, sizeof(TrainingPage), PROT_READ, MAP_SHARED, record->descriptor(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  record.reset();  // the writer is gone
  const auto reading = read_training_page({static_cast<const std::byte*>(memory), sizeof(TrainingPage)});
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->curves.at(0).points.at(0).value, 0.25);
  ::munmap(memory, sizeof(TrainingPage));
}

TEST(TrainingRecord, AForkedChildWritesNothing) {
  TrainingRecord record;
  record.begin_phase(Phase::data);
  const pid_t child = ::fork();
  if (child == 0) {
    record.begin_phase(Phase::garbage);
    record.end_step();
    record.log("loss", 1, 0);
    record.set_run(1, 1, 1);
    record.set_clock_offset(1);
    record.begin_generation(2, 7);
    TrainingRecord own;
    own.end_step();
    ::_exit(read_training_page(own.page())->step == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "a record that a child makes is its own";
  const TrainingReading reading = read(record);
  EXPECT_EQ(reading.phase, Phase::data);
  EXPECT_EQ(reading.step, 0U);
  EXPECT_EQ(reading.total_steps, 0U);
  EXPECT_EQ(reading.clock_offset_ns, 0);
  EXPECT_THAT(reading.curves, IsEmpty());
}

TEST(TrainingRecord, AGenerationGoesOnWithTheStepsOfItsRanks) {
  TrainingRecord survivor, joiner;
  for (int i = 0; i < 5; ++i) survivor.end_step();
  survivor.begin_phase(Phase::wait);  // in which the job has failed
  for (TrainingRecord* each : {&survivor, &joiner}) each->begin_generation(3, survivor.steps());
  joiner.log("loss", 1, -1);
  for (TrainingRecord* each : {&survivor, &joiner}) {
    each->begin_phase(Phase::backward);
    each->end_step();
    const TrainingReading reading = read(*each);
    EXPECT_EQ(reading.step, 6U);
    EXPECT_EQ(reading.generation, 3U);
    const auto is_of_it = [&](const PhaseSpan& span) { return span.begin_ns >= reading.generation_since_ns; };
    const auto first = std::ranges::find_if(reading.spans, is_of_it);
    ASSERT_NE(first, reading.spans.end());
    EXPECT_EQ(first->step, 5U);
    EXPECT_NE(first->phase, Phase::wait) << "the wait has ended with the generation before";
    ASSERT_NE(first, reading.spans.begin());
    EXPECT_LE((first - 1)->end_ns, reading.generation_since_ns);
  }
  EXPECT_EQ(read(joiner).curves.at(0).points.at(0).step, 5U);
  survivor.begin_generation(4, 2);
  EXPECT_EQ(survivor.steps(), 6U) << "it has done more";
}

TEST(TrainingRecord, TheMomentIsWhatThePageSays) {
  TrainingRecord record;
  record.end_step();
  record.begin_phase(Phase::data);
  const auto moment = read_training_moment(record.page());
  ASSERT_TRUE(moment);
  EXPECT_EQ(moment->phase, Phase::data);
  EXPECT_EQ(moment->step, 1U);
  EXPECT_EQ(read_training_moment(record.page()), moment);
  record.begin_phase(Phase::data);
  EXPECT_EQ(read_training_moment(record.page()), moment);
  record.begin_phase(Phase::wait);
  record.begin_phase(Phase::data);
  EXPECT_NE(read_training_moment(record.page()), moment) << "another time";
  EXPECT_FALSE(read_training_moment(record.page().first(100)));
}

TEST(TrainingRecord, ReadersAndWritersOnManyThreads) {
  TrainingRecord record;
  std::atomic<bool> over = false;
  std::vector<std::thread> writers;
  for (int each = 0; each < 3; ++each) {
    writers.emplace_back([&record, each] {
      for (int i = 0; i < 5'000; ++i) {
        record.begin_phase(static_cast<Phase>((i + each) % kPhaseCount));
        record.log(each == 0 ? "loss" : "rate", i, i);
        if (i % 10 == 0) record.end_step();
      }
    });
  }
  std::thread reader([&] {
    std::uint64_t from = 0;
    while (!over) {
      const TrainingReading reading = read(record, from);
      for (const PhaseSpan& span : reading.spans) EXPECT_LE(span.begin_ns, span.end_ns);
      for (const ScalarCurve& curve : reading.curves) {
        for (const ScalarPoint& point : curve.points)
          EXPECT_EQ(point.value, static_cast<double>(point.step)) << "a torn point";
      }
      from = reading.spans_written;
    }
  });
  for (std::thread& writer : writers) writer.join();
  over = true;
  reader.join();
  const TrainingReading reading = read(record);
  EXPECT_EQ(reading.step, 1'500U);
  ASSERT_THAT(reading.curves, SizeIs(2));
  EXPECT_EQ(reading.curves[0].logged + reading.curves[1].logged, 15'000U);
}

// Memory as a fuzzer may leave it.
TEST(TrainingPage, AnyBytesAreReadWithinBounds) {
  std::mt19937_64 random(43);
  std::vector<std::uint64_t> words(sizeof(TrainingPage) / sizeof(std::uint64_t));
  const ConstBytes bytes(reinterpret_cast<const std::byte*>(words.data()), sizeof(TrainingPage));
  EXPECT_FALSE(read_training_page(bytes)) << "no page yet";
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t& word : words) word = round % 2 == 0 ? random() : random() % 3;
    if (round % 4 >= 2) std::ranges::fill(words, ~std::uint64_t{0});
    words[0] = TrainingPage::kMagic;
    words[1] = TrainingPage::kVersion;
    const std::vector<std::uint64_t> cursors{random(), 0, ~std::uint64_t{0}};
    const auto reading = read_training_page(bytes, round % 3 == 0 ? 0 : random(), cursors);
    ASSERT_TRUE(reading);
    EXPECT_LE(reading->spans.size(), TrainingPage::kSpans);
    EXPECT_LE(reading->curves.size(), TrainingPage::kTags);
    EXPECT_LT(static_cast<int>(reading->phase), kPhaseCount);
    for (const PhaseSpan& span : reading->spans) EXPECT_LT(static_cast<int>(span.phase), kPhaseCount);
    for (const ScalarCurve& curve : reading->curves) {
      EXPECT_LE(curve.tag.size(), TrainingPage::kTagBytes);
      EXPECT_LE(curve.points.size(), TrainingPage::kPoints);
    }
    EXPECT_LE(reading->routes.size(), TrainingPage::kRoutes);
    for (const CountedRoute& route : reading->routes) {
      EXPECT_LT(static_cast<int>(route.kind.operation), kOperationCount);
      EXPECT_LE(route.kind.backend.size(), TrainingPage::kBackendBytes);
    }
  }
}

TEST(TrainingPage, OtherMemoryIsRefused) {
  TrainingRecord record;
  const ConstBytes page = record.page();
  EXPECT_FALSE(read_training_page(page.first(page.size() - 1)));
  EXPECT_FALSE(read_training_page({}));
  std::vector<std::uint64_t> copy(sizeof(TrainingPage) / sizeof(std::uint64_t) + 1);
  std::memcpy(copy.data(), page.data(), page.size());
  const ConstBytes bytes(reinterpret_cast<const std::byte*>(copy.data()), sizeof(TrainingPage) + 8);
  EXPECT_TRUE(read_training_page(bytes));
  EXPECT_FALSE(read_training_page(bytes.subspan(1))) << "not aligned";
  copy[1] = TrainingPage::kVersion + 1;
  EXPECT_FALSE(read_training_page(bytes)) << "another version";
}

TEST(TrainingPage, PhasesHaveNames) {
  EXPECT_EQ(to_string(Phase::other), "other");
  EXPECT_EQ(to_string(Phase::data), "data");
  EXPECT_EQ(to_string(static_cast<Phase>(kPhaseCount - 1)), "garbage");
}

}  // namespace
}  // namespace rueda
