// SPDX-License-Identifier: Apache-2.0
// The agent asks for a timeline of some steps, and gets these.
#include "core/engine/requested_timeline.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "core/observe/timeline_merge.h"
#include "core/observe/training/training_record.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

// The agent's view of this process's page.
TimelineRequestPage& agents_page() {
  static void* const memory = ::mmap(nullptr, sizeof(TimelineRequestPage), PROT_READ | PROT_WRITE, MAP_SHARED,
                                     TimelineRequests::of_process().descriptor(), 0);
  return *static_cast<TimelineRequestPage*>(memory);
}

std::uint64_t steps_done() { return read_training_page(TrainingRecord::of_process().page())->step; }

TEST(TimelineRequestPage, GivesTheNewestRequestWhole) {
  TimelineRequestPage page{};
  EXPECT_EQ(page.count(), 0u);
  EXPECT_FALSE(page.read());
  ASSERT_TRUE(page.write({3, 23, "/tmp/first.json"}));
  ASSERT_TRUE(page.write({5, 6, "/tmp/b"}));
  EXPECT_EQ(page.count(), 2u);
  EXPECT_EQ(page.read()->first, 5u);
  EXPECT_EQ(page.read()->last, 6u);
  EXPECT_EQ(page.read()->path, "/tmp/b");
  EXPECT_FALSE(page.write({1, 2, std::string(4096, 'x')}));
  ASSERT_TRUE(page.write({1, 2, std::string(4000, 'x')}));
  EXPECT_EQ(page.read()->path.size(), 4000u);
  ASSERT_TRUE(page.write({5, 5, "/tmp/b"}));
  EXPECT_FALSE(page.read()) << "no step";
  ASSERT_TRUE(page.write({5, 6, ""}));
  EXPECT_FALSE(page.read()) << "no path";
}

class RequestedTimelineTest : public testing::Test {
 protected:
  RequestedTimelineTest() { timeline_.set_identity({.host = "here"}); }
  ~RequestedTimelineTest() override { ::unlink(path_.c_str()); }

  bool look_until(auto is_so) {
    for (int i = 0; i < 5000 && !is_so(); ++i, std::this_thread::sleep_for(1ms)) requested_.look();
    return is_so();
  }
  void train(int steps) {
    for (; steps > 0; --steps) TrainingRecord::of_process().end_step();
  }

  const std::string path_ = testing::TempDir() + "/requested_" + std::to_string(::getpid()) + ".json";
  Timeline timeline_;
  RequestedTimeline requested_{timeline_};
};

TEST_F(RequestedTimelineTest, CoversTheStepsThatAreAskedFor) {
  const std::uint64_t first = steps_done() + 2;
  ASSERT_TRUE(agents_page().write({first, first + 3, path_}));
  requested_.look();
  std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(timeline_.tracing()) << "it is too early";
  train(2);
  EXPECT_TRUE(look_until([&] { return timeline_.tracing(); }));
  train(2);
  std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(timeline_.tracing());
  train(1);
  EXPECT_TRUE(look_until([&] { return timeline_ended(path_); }));
  EXPECT_FALSE(timeline_.tracing());
}

TEST_F(RequestedTimelineTest, OneThatComesLateHasItsLength) {
  train(10);
  ASSERT_TRUE(agents_page().write({steps_done() - 5, steps_done() - 2, path_}));
  EXPECT_TRUE(look_until([&] { return timeline_.tracing(); }));
  train(2);
  std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(timeline_.tracing());
  train(1);
  EXPECT_TRUE(look_until([&] { return !timeline_.tracing(); }));
}

TEST_F(RequestedTimelineTest, AnotherOneWaitsForTheFirst) {
  const std::string second = path_ + ".second";
  ASSERT_TRUE(agents_page().write({steps_done(), steps_done() + 2, path_}));
  EXPECT_TRUE(look_until([&] { return timeline_.tracing(); }));
  ASSERT_TRUE(agents_page().write({steps_done() + 2, steps_done() + 3, second}));
  train(2);
  EXPECT_TRUE(look_until([&] { return std::filesystem::exists(second); }));
  train(1);
  EXPECT_TRUE(look_until([&] { return !timeline_.tracing(); }));
  ::unlink(second.c_str());
}

TEST_F(RequestedTimelineTest, AFileThatCannotBeWrittenIsNoHarm) {
  ASSERT_TRUE(agents_page().write({0, 1, "/no such folder/trace.json"}));
  requested_.look();
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(timeline_.tracing());
  ASSERT_TRUE(agents_page().write({steps_done(), steps_done() + 1, path_}));
  EXPECT_TRUE(look_until([&] { return timeline_.tracing(); })) << "the next one is made";
}

TEST_F(RequestedTimelineTest, TheProgramsOwnTimelineIsNotStopped) {
  const std::string own = path_ + ".own";
  ASSERT_TRUE(agents_page().write({steps_done(), steps_done() + 2, path_}));
  EXPECT_TRUE(look_until([&] { return timeline_.tracing(); }));
  EXPECT_TRUE(timeline_.stop().ok());
  EXPECT_TRUE(timeline_.start(own, false).ok());
  train(3);
  std::this_thread::sleep_for(30ms);
  EXPECT_TRUE(timeline_.tracing());
  EXPECT_TRUE(timeline_.stop().ok());
  ::unlink(own.c_str());
}

TEST_F(RequestedTimelineTest, TheFirstRuntimeObeysWhoeverLooksFirst) {
  Timeline other;
  other.set_identity({.host = "here"});
  RequestedTimeline of_other(other);
  ASSERT_TRUE(agents_page().write({steps_done(), steps_done() + 1, path_}));
  of_other.look();
  requested_.look();
  EXPECT_TRUE(look_until([&] { return timeline_.tracing(); }));
  EXPECT_FALSE(other.tracing());
}

}  // namespace
}  // namespace rueda
