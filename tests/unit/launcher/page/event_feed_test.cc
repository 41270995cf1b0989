// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/event_feed.h"

#include <gtest/gtest.h>

#include <poll.h>

#include <thread>

namespace rueda {
namespace {

using namespace std::chrono_literals;

bool calls_the_loop(const EventFeed& feed) {
  pollfd wait{feed.descriptor(), POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

TEST(EventFeed, AReaderGetsEverythingFirstAndThenTheNews) {
  EventFeed feed;
  EXPECT_FALSE(calls_the_loop(feed));
  feed.publish("old");
  auto reader = feed.begin();
  ASSERT_TRUE(reader);
  EXPECT_TRUE(calls_the_loop(feed));
  const EventFeed::Wanted wanted = feed.take_wanted();
  EXPECT_TRUE(wanted.watched);
  EXPECT_TRUE(wanted.snapshot);
  EXPECT_FALSE(calls_the_loop(feed));
  feed.give_snapshot("all");
  EXPECT_FALSE(feed.take_wanted().snapshot);
  feed.publish("new");
  EXPECT_EQ(feed.next(*reader), "all");
  EXPECT_EQ(feed.next(*reader), "new");
  feed.end();
  EXPECT_FALSE(feed.take_wanted().watched);
}

TEST(EventFeed, ASlowReaderSkipsToEverything) {
  EventFeed feed;
  auto reader = feed.begin();
  feed.give_snapshot("all");
  EXPECT_EQ(feed.next(*reader), "all");
  for (int i = 0; i < 1000; ++i) feed.publish("event");
  std::thread loop([&] {
    for (int i = 0; i < 1000 && !feed.take_wanted().snapshot; ++i) std::this_thread::sleep_for(1ms);
    feed.give_snapshot("all again");
  });
  EXPECT_EQ(feed.next(*reader), "all again");
  loop.join();
  feed.publish("last");
  EXPECT_EQ(feed.next(*reader), "last");
}

TEST(EventFeed, SixteenMayWatch) {
  EventFeed feed;
  for (int i = 0; i < EventFeed::kMostWatchers; ++i) EXPECT_TRUE(feed.begin());
  EXPECT_FALSE(feed.begin());
  feed.end();
  EXPECT_TRUE(feed.begin());
}

TEST(EventFeed, QuestionsAreAnsweredByTheLoop) {
  EventFeed feed;
  std::thread loop([&] {
    for (EventFeed::Wanted wanted; !wanted.status; wanted = feed.take_wanted())
      std::this_thread::sleep_for(1ms);
    feed.answer_status("well");
  });
  EXPECT_EQ(feed.status(), "well");
  loop.join();
  feed.close();
  EXPECT_FALSE(feed.status());
}

TEST(EventFeed, AtTheEndAReaderGetsWhatIsThere) {
  EventFeed feed;
  auto reader = feed.begin();
  feed.give_snapshot("all");
  feed.publish("end");
  std::thread thread([&] {
    EXPECT_EQ(feed.next(*reader), "all");
    EXPECT_EQ(feed.next(*reader), "end");
    EXPECT_EQ(feed.next(*reader), std::nullopt);
    feed.end();
  });
  const auto before = EventFeed::Clock::now();
  feed.finish(before + 10s);
  EXPECT_LT(EventFeed::Clock::now() - before, 5s);
  thread.join();
  EXPECT_FALSE(feed.begin());
}

}  // namespace
}  // namespace rueda
