// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/event_feed.h"

#include <gtest/gtest.h>

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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
  EXPECT_EQ(*feed.next(*reader), "all");
  EXPECT_EQ(*feed.next(*reader), "new");
  feed.end();
  EXPECT_FALSE(feed.take_wanted().watched);
}

TEST(EventFeed, ASlowReaderSkipsToEverything) {
  EventFeed feed;
  auto reader = feed.begin();
  feed.give_snapshot("all");
  EXPECT_EQ(*feed.next(*reader), "all");
  for (int i = 0; i < 1000; ++i) feed.publish("event");
  std::thread loop([&] {
    for (int i = 0; i < 1000 && !feed.take_wanted().snapshot; ++i) std::this_thread::sleep_for(1ms);
    feed.give_snapshot("all again");
  });
  EXPECT_EQ(*feed.next(*reader), "all again");
  loop.join();
  feed.publish("last");
  EXPECT_EQ(*feed.next(*reader), "last");
}

// An event is its number, and a snapshot "all" and the number of the event behind it.
void read_in_order(EventFeed& feed, EventFeed::Reader reader, int events) {
  for (int next = 0; next < events;) {
    const EventFeed::Text text = feed.next(reader);
    ASSERT_TRUE(text);
    if (*text == ":\n\n") continue;
    if (text->starts_with("all ")) {
      EXPECT_GE(std::stoi(text->substr(4)), next);
      next = std::stoi(text->substr(4));
    } else {
      EXPECT_EQ(std::stoi(*text), next++);
    }
  }
  feed.end();
}

TEST(EventFeed, AReaderThatIsLateInAWaitLosesNothing) {
  EventFeed feed;
  constexpr int kBursts = 200, kBurst = 300;  // more than the feed keeps
  std::vector<std::thread> readers;
  for (int i = 0; i < EventFeed::kMostWatchers; ++i) {
    const auto reader = feed.begin();
    ASSERT_TRUE(reader);
    readers.emplace_back([&feed, reader] { read_in_order(feed, *reader, kBursts * kBurst); });
  }
  int published = 0;
  const auto serve = [&] {
    if (feed.take_wanted().snapshot) feed.give_snapshot("all " + std::to_string(published));
  };
  for (int burst = 0; burst < kBursts; ++burst) {
    serve();
    std::this_thread::sleep_for(200us);
    for (int i = 0; i < kBurst; ++i) feed.publish(std::to_string(published++));
  }
  while (feed.take_wanted().watched) {
    feed.give_snapshot("all " + std::to_string(published));
    std::this_thread::sleep_for(1ms);
  }
  for (std::thread& reader : readers) reader.join();
}

TEST(EventFeed, ManyReadersDoNotHoldTheLoop) {
  EventFeed feed;
  std::atomic<bool> over{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < EventFeed::kMostWatchers; ++i)
    readers.emplace_back([&] {
      while (!over && feed.ask(Inquiry::status)) {}
    });
  const std::string text(8 << 20, 'x');
  std::vector<std::chrono::nanoseconds> times;
  for (int i = 0; i < 20; ++i) {
    std::string copy = text;
    const auto before = EventFeed::Clock::now();
    feed.answer(Inquiry::status, std::move(copy));
    static_cast<void>(feed.take_wanted());
    times.push_back(EventFeed::Clock::now() - before);
    std::this_thread::sleep_for(1ms);
  }
  over = true;
  feed.close();
  for (std::thread& reader : readers) reader.join();
  std::ranges::nth_element(times, times.begin() + 10);
  EXPECT_LT(times[10], 15ms) << "a copy for each reader takes longer";
}

TEST(EventFeed, AtTheEndASlowReaderGetsTheLastEvents) {
  EventFeed feed;
  auto reader = feed.begin();
  feed.give_snapshot("all");
  EXPECT_EQ(*feed.next(*reader), "all");
  for (int i = 0; i < 1000; ++i) feed.publish(std::to_string(i));
  feed.finish(EventFeed::Clock::now());
  std::string last;
  while (const EventFeed::Text text = feed.next(*reader)) last = *text;
  EXPECT_EQ(last, "999");
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
    for (EventFeed::Wanted wanted; !wanted.wants(Inquiry::status); wanted = feed.take_wanted())
      std::this_thread::sleep_for(1ms);
    feed.answer(Inquiry::status, "well");
  });
  EXPECT_EQ(*feed.ask(Inquiry::status), "well");
  loop.join();
  feed.close();
  EXPECT_FALSE(feed.ask(Inquiry::status));
}

TEST(EventFeed, KeepsNoAnswerAfterItsAskers) {
  EventFeed feed;
  std::vector<std::weak_ptr<const std::string>> given(2);
  std::vector<std::thread> askers;
  for (auto& each : given)
    askers.emplace_back([&feed, &each] {
      const EventFeed::Text text = feed.ask(Inquiry::stacks);
      EXPECT_TRUE(text && text->starts_with("long"));
      each = text;
    });
  std::atomic<bool> over = false;
  std::thread loop([&] {
    for (; !over; std::this_thread::sleep_for(1ms))
      if (feed.take_wanted().wants(Inquiry::stacks)) feed.answer(Inquiry::stacks, "long answer");
  });
  for (std::thread& asker : askers) asker.join();
  over = true;
  loop.join();
  for (const auto& each : given) EXPECT_TRUE(each.expired());
}

TEST(EventFeed, AtTheEndAReaderGetsWhatIsThere) {
  EventFeed feed;
  auto reader = feed.begin();
  feed.give_snapshot("all");
  feed.publish("end");
  std::thread thread([&] {
    EXPECT_EQ(*feed.next(*reader), "all");
    EXPECT_EQ(*feed.next(*reader), "end");
    EXPECT_EQ(feed.next(*reader), nullptr);
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
