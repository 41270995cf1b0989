// SPDX-License-Identifier: Apache-2.0
// Hosts that come and go, and where another worker may run.
#include "launcher/supervisor/host_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

namespace rueda {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Time kTimeZero{};

// Hosts a and b with two slots each, of which those of `ranks` ranks have workers, and both agents.
struct Pool {
  explicit Pool(int ranks, Blacklist blacklist = Blacklist::slot, std::optional<Cooldown> cooldown = {})
      : hosts(blacklist, cooldown, 1) {
    int number = 0;
    for (const HostRanks& host : place_ranks(ranks, {{"a", 2}, {"b", 2}}, "here"))
      hosts.begin(number++, host);
    hosts.use({{"a", 2}, {"b", 2}});
    for (int host = 0; host < number; ++host) hosts.open(host);
  }
  // "1.0" for local rank 0 of host number 1; "none".
  std::string opening(Time now = kTimeZero) const {
    const auto found = hosts.opening(now);
    return found ? std::to_string(found->number) + "." + std::to_string(found->local_rank) : "none";
  }
  void fill(Worker worker, Time now = kTimeZero) { hosts.fill(*hosts.opening(now), worker); }

  HostPool hosts;
};

TEST(HostPool, AFreeSlotIsThatOfALostWorker) {
  Pool pool(4);
  EXPECT_EQ(pool.hosts.taken(), 4);
  EXPECT_EQ(pool.opening(), "none");
  pool.hosts.failed(2, true, kTimeZero);
  EXPECT_EQ(pool.opening(), "1.0");
  pool.fill(4);
  EXPECT_EQ(pool.opening(), "none");
  EXPECT_EQ(pool.hosts.taken(), 4);
}

TEST(HostPool, AHostWithoutAnAgentGetsOneWhenItsSlotsAreWanted) {
  Pool pool(2);
  EXPECT_EQ(pool.hosts.host_to_start(2, kTimeZero), std::nullopt);
  EXPECT_EQ(pool.hosts.host_to_start(3, kTimeZero), "b");
  pool.hosts.starts("b", 7, kTimeZero);
  EXPECT_EQ(pool.hosts.host_to_start(3, kTimeZero), std::nullopt);
  EXPECT_EQ(pool.hosts.host_to_start(4, kTimeZero), std::nullopt);
  EXPECT_EQ(pool.opening(), "none");  // it is on its way
  EXPECT_THAT(pool.hosts.overdue(kTimeZero + 9s, 10s), IsEmpty());
  EXPECT_THAT(pool.hosts.overdue(kTimeZero + 10s, 10s), ElementsAre(7));
  pool.hosts.open(7);
  EXPECT_THAT(pool.hosts.overdue(kTimeZero + 10s, 10s), IsEmpty());
  EXPECT_EQ(pool.opening(), "7.0");
  EXPECT_EQ(pool.hosts.name_of(7), "b");
  EXPECT_EQ(pool.hosts.slots_of(7), 2);
}

TEST(HostPool, ByDefaultOnlyASlotWhoseWorkerNeverTookPartIsNotUsedAgain) {
  Pool pool(2);
  pool.hosts.failed(1, false, kTimeZero);
  EXPECT_EQ(pool.opening(kTimeZero + 1h), "none");
  pool.hosts.failed(0, true, kTimeZero);
  EXPECT_EQ(pool.opening(), "0.0");
}

TEST(HostPool, AHostWhoseAgentHasGoneIsNotUsedAgain) {
  Pool pool(4);
  pool.hosts.lose(1, kTimeZero);
  EXPECT_EQ(pool.hosts.taken(), 2);
  EXPECT_EQ(pool.hosts.host_to_start(4, kTimeZero + 1h), std::nullopt);
  EXPECT_FALSE(pool.hosts.may_get_more());
  EXPECT_EQ(pool.hosts.next_time(kTimeZero), std::nullopt);
}

TEST(HostPool, ItIsUsedAgainWhenTheUserNamesItAfterSomeTimeWithoutIt) {
  Pool pool(4);
  pool.hosts.lose(1, kTimeZero);
  pool.hosts.use({{"a", 2}});
  const HostPool::Change change = pool.hosts.use({{"a", 2}, {"b", 2}});
  EXPECT_THAT(change.fresh, ElementsAre("b"));
  EXPECT_EQ(pool.hosts.host_to_start(4, kTimeZero), "b");
}

TEST(HostPool, AfterTheCooldownItIsUsedAgainAndEachFailureDoublesTheTime) {
  Pool pool(4, Blacklist::slot, Cooldown{10s, 60s});
  pool.hosts.lose(1, kTimeZero);
  EXPECT_TRUE(pool.hosts.may_get_more());
  const Time first = *pool.hosts.next_time(kTimeZero);
  EXPECT_GE(first, kTimeZero + 10s);
  EXPECT_LE(first, kTimeZero + 20s);
  EXPECT_EQ(pool.hosts.host_to_start(4, first - 1s), std::nullopt);
  EXPECT_EQ(pool.hosts.host_to_start(4, first), "b");
  pool.hosts.starts("b", 2, first);
  pool.hosts.lose(2, first);
  const Time second = *pool.hosts.next_time(first);
  EXPECT_GE(second, first + 20s);
  EXPECT_LE(second, first + 30s);
  pool.hosts.starts("b", 3, second);
  pool.hosts.lose(3, second);
  pool.hosts.starts("b", 4, second);
  pool.hosts.lose(4, second);
  EXPECT_EQ(*pool.hosts.next_time(second), second + 60s);
}

TEST(HostPool, ASlotOnTheBlacklistStaysThereWhenTheAgentGoes) {
  Pool pool(2, Blacklist::slot, Cooldown{10s, 600s});
  for (int i = 0; i < 5; ++i) {
    pool.hosts.failed(1, false, kTimeZero);
    pool.fill(1, kTimeZero + 1h);
  }
  pool.hosts.failed(1, false, kTimeZero);
  pool.hosts.lose(0, kTimeZero);
  const Time later = kTimeZero + 30s;
  pool.hosts.starts("a", 2, later);
  pool.hosts.open(2);
  EXPECT_EQ(pool.opening(later), "2.0");
  pool.fill(2, later);
  EXPECT_EQ(pool.opening(later), "none");
  EXPECT_EQ(pool.opening(kTimeZero + 601s), "2.1");
}

TEST(HostPool, HorovodsRuleEndsAllOnTheHostOfALostWorker) {
  Pool pool(4, Blacklist::host);
  pool.hosts.failed(0, true, kTimeZero);
  EXPECT_THAT(pool.hosts.take_blacklisted(), ElementsAre(1));
  EXPECT_THAT(pool.hosts.take_blacklisted(), IsEmpty());
  EXPECT_TRUE(pool.hosts.is_closed(0));
  EXPECT_THAT(pool.hosts.take_released(), IsEmpty());  // worker 1 runs
  pool.hosts.ended_well(1);
  EXPECT_THAT(pool.hosts.take_released(), ElementsAre(0));
  EXPECT_THAT(pool.hosts.take_released(), IsEmpty());
  EXPECT_EQ(pool.hosts.host_to_start(4, kTimeZero + 1h), std::nullopt);
  pool.hosts.use({{"b", 2}});
  pool.hosts.use({{"a", 2}, {"b", 2}});
  EXPECT_EQ(pool.hosts.host_to_start(4, kTimeZero + 1h), std::nullopt);  // for ever
}

TEST(HostPool, AFailureSaysWhatIsNotUsedAndForHowLong) {
  Pool pool(4);
  EXPECT_FALSE(pool.hosts.failed(0, true, kTimeZero));
  const auto slot = pool.hosts.failed(3, false, kTimeZero);
  ASSERT_TRUE(slot);
  EXPECT_EQ(slot->host, "b");
  EXPECT_EQ(slot->local_rank, 1);
  EXPECT_EQ(slot->time, std::nullopt);
  pool.hosts.use({{"a", 2}});
  EXPECT_FALSE(pool.hosts.failed(2, false, kTimeZero));  // its host is not used anyway
  EXPECT_FALSE(pool.hosts.failed(7, false, kTimeZero));  // nobody knows it

  const auto lost = pool.hosts.lose(0, kTimeZero);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->host, "a");
  EXPECT_FALSE(lost->local_rank || lost->time);
  EXPECT_FALSE(pool.hosts.lose(0, kTimeZero));

  Pool of_hosts(4, Blacklist::host, Cooldown{10s, 600s});
  const auto host = of_hosts.hosts.failed(1, true, kTimeZero);
  ASSERT_TRUE(host);
  EXPECT_EQ(host->host, "a");
  EXPECT_EQ(host->local_rank, std::nullopt);
  ASSERT_TRUE(host->time);
  EXPECT_GE(*host->time, 10s);
  EXPECT_LE(*host->time, 20s);
}

TEST(HostPool, WithoutABlacklistFailuresPutOffForAMinuteAtMost) {
  Pool pool(2, Blacklist::never);
  for (int i = 0; i < 10; ++i) {
    pool.hosts.failed(1, false, kTimeZero);
    ASSERT_TRUE(pool.hosts.next_time(kTimeZero));
    EXPECT_LE(*pool.hosts.next_time(kTimeZero), kTimeZero + 60s);
    EXPECT_EQ(pool.opening(), "none");
    pool.fill(1, kTimeZero + 60s);
  }
}

TEST(HostPool, WorkersOfAHostThatIsLeftOutHaveToGo) {
  Pool pool(4);
  const HostPool::Change change = pool.hosts.use({{"a", 2}, {"c", 1}});
  EXPECT_THAT(change.leaving, ElementsAre(2, 3));
  EXPECT_THAT(change.left, ElementsAre("b"));
  EXPECT_THAT(change.fresh, ElementsAre("c"));
  EXPECT_EQ(pool.hosts.taken(), 4);
  EXPECT_EQ(pool.hosts.staying(), 2);
  EXPECT_EQ(pool.hosts.host_to_start(2, kTimeZero), std::nullopt);
  EXPECT_EQ(pool.hosts.host_to_start(3, kTimeZero), "c");
  pool.hosts.ended_well(2);
  EXPECT_EQ(pool.opening(), "none");
  EXPECT_THAT(pool.hosts.take_released(), IsEmpty());
  pool.hosts.failed(3, true, kTimeZero);
  EXPECT_THAT(pool.hosts.take_released(), ElementsAre(1));
  pool.hosts.lose(1, kTimeZero);  // its agent has ended, as it was told to
  pool.hosts.use({{"a", 2}, {"b", 2}});
  EXPECT_EQ(pool.hosts.host_to_start(5, kTimeZero), "b");
}

TEST(HostPool, AHostMayGetMoreOrFewerSlots) {
  Pool pool(4);
  EXPECT_THAT(pool.hosts.use({{"a", 3}, {"b", 2}}).leaving, IsEmpty());
  EXPECT_EQ(pool.opening(), "0.2");
  EXPECT_THAT(pool.hosts.use({{"a", 1}, {"b", 2}}).leaving, ElementsAre(1));
  EXPECT_THAT(pool.hosts.use({{"a", 1}, {"b", 2}}).leaving, IsEmpty());  // it is told once
  EXPECT_EQ(pool.opening(), "none");
  EXPECT_THAT(pool.hosts.use({{"a", 2}, {"b", 2}}).leaving, IsEmpty());
  pool.hosts.ended_well(1);
  EXPECT_EQ(pool.opening(), "0.1");
}

TEST(HostPool, AHostThatIsAskedToGoMayBeNamedOnAndIsUsedAgainWhenItWasLeftOut) {
  Pool pool(4);
  EXPECT_THAT(pool.hosts.close(1), ElementsAre(2, 3));
  EXPECT_THAT(pool.hosts.close(1), IsEmpty());
  EXPECT_TRUE(pool.hosts.is_closed(1));
  EXPECT_FALSE(pool.hosts.is_closed(0));
  EXPECT_THAT(pool.hosts.use({{"a", 2}, {"b", 2}}).fresh, IsEmpty());
  EXPECT_EQ(pool.hosts.host_to_start(4, kTimeZero), std::nullopt);
  pool.hosts.use({{"a", 2}});
  EXPECT_THAT(pool.hosts.use({{"a", 2}, {"b", 2}}).fresh, ElementsAre("b"));
  EXPECT_EQ(pool.hosts.host_to_start(4, kTimeZero), "b");
}

TEST(HostPool, ALongCooldownStaysWithinItsLimit) {
  Pool pool(2, Blacklist::slot, Cooldown{20'000s, 30'000'000s});
  Time now = kTimeZero;
  for (int i = 0; i < 40; ++i) {
    pool.hosts.failed(1, false, now);
    ASSERT_TRUE(pool.hosts.next_time(now));
    EXPECT_LE(*pool.hosts.next_time(now), now + 30'000'000s);
    now += 30'000'000s;
    pool.fill(1, now);
  }
}

TEST(HostPool, AHostMayBeNamedTwice) {
  HostPool hosts(Blacklist::slot, {}, 1);
  hosts.use({{"a", 1}, {"b", 1}, {"a", 2}});
  hosts.starts("a", 0, kTimeZero);
  EXPECT_EQ(hosts.slots_of(0), 3);
  EXPECT_FALSE(hosts.has_one_host());
}

}  // namespace
}  // namespace rueda
