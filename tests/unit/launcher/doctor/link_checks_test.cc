// SPDX-License-Identifier: Apache-2.0
// Connections that are missing or slow are told once, with the card that is to blame.
#include "launcher/doctor/link_checks.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/launcher/doctor/facts.h"

namespace rueda {
namespace {

using State = Finding::State;
using Hosts = std::vector<std::string>;

void cut(Examination& job, const std::function<bool(const TriedLink&)>& which) {
  for (TriedLink& link : job.tried)
    if (which(link)) link.problem = "no answer within 2 s";
  std::erase_if(job.links, [&](const MeasuredLink& link) {
    return which({link.from, link.to, link.card, link.peer_card, ""});
  });
}

bool has(const TriedLink& link, int host) { return link.from == host || link.to == host; }

TEST(LinkChecks, AreSilentWithoutAFault) {
  for (const int hosts : {1, 2, 5}) {
    const Examination job = good_job(hosts);
    EXPECT_TRUE(check_connections(job).empty());
    EXPECT_TRUE(check_bandwidth(job).empty());
    EXPECT_TRUE(check_card_speed(job).empty());
    EXPECT_TRUE(check_latency(job).empty());
    EXPECT_EQ(sum_up_links(job).size(), hosts == 1 ? 0u : 2u);
  }
}

TEST(LinkChecks, APulledCableIsToldOnceAndRanksDoWithoutTheCard) {
  Examination job = good_job(5);
  cut(job, [](const TriedLink& link) { return link.card == 1 && has(link, 3); });
  const std::vector<Finding> found = check_connections(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].state, State::warning);
  EXPECT_EQ(found[0].hosts, Hosts{"h3"});
  EXPECT_NE(found[0].sentence.find("eth1 reaches no other host"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].remedy.find("RUEDA_RAILS=eth0"), std::string::npos) << found[0].remedy;
}

TEST(LinkChecks, ACardThatNoHostReachesIsToldOnce) {
  for (const int hosts : {2, 4}) {
    Examination job = good_job(hosts);
    cut(job, [](const TriedLink& link) { return link.card == 1; });
    const std::vector<Finding> found = check_connections(job);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].state, State::warning);
    EXPECT_EQ(found[0].hosts.size(), static_cast<std::size_t>(hosts));
  }
}

TEST(LinkChecks, TwoHostsThatNoCardConnectsAreAnError) {
  Examination job = good_job(4);
  cut(job, [](const TriedLink& link) { return has(link, 1) && has(link, 2); });
  const std::vector<Finding> found = check_connections(job);
  ASSERT_EQ(found.size(), 2u);  // one for each card
  for (const Finding& each : found) {
    EXPECT_EQ(each.state, State::error);
    EXPECT_EQ(each.hosts, (Hosts{"h1", "h2"}));
    EXPECT_NE(each.remedy.find("TCP ports"), std::string::npos);
  }
}

TEST(LinkChecks, ADeadHostIsAnError) {
  Examination job = good_job(3);
  cut(job, [](const TriedLink& link) { return has(link, 2); });
  const std::vector<Finding> found = check_connections(job);
  ASSERT_EQ(found.size(), 2u);
  for (const Finding& each : found) EXPECT_EQ(each.hosts, Hosts{"h2"});
  EXPECT_TRUE(has_error(found));
}

TEST(LinkChecks, AConnectionThatBreaksIsAWarning) {
  Examination job = good_job(2);
  job.links[0].problem = "it has stopped answering";
  const std::vector<Finding> found = check_connections(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].state, State::warning);
  EXPECT_NE(found[0].sentence.find("it has stopped answering"), std::string::npos);
}

TEST(LinkChecks, ASlowCardIsNamedWithItsFigures) {
  Examination job = good_job(3);
  for (MeasuredLink& link : job.links)
    if (link.card == 1 && (link.from == 1 || link.to == 1)) link.received = 2'500'000;
  const std::vector<Finding> found = check_bandwidth(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].hosts, Hosts{"h1"});
  for (const char* words : {"eth1", "1 Gbit/s there", "0.02 Gbit/s back", "0.992 Gbit/s is usual"})
    EXPECT_NE(found[0].sentence.find(words), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].remedy.find("ethtool eth1"), std::string::npos);
}

TEST(LinkChecks, ALinkFarBelowItsCardsIsNamedAlsoAlone) {
  Examination job = good_job(2);
  for (ExaminedHost& host : job.hosts)
    for (agents::CardFacts& card : host.facts->network.cards) card.megabits = 1000;
  EXPECT_TRUE(check_card_speed(job).empty());
  for (ExaminedHost& host : job.hosts) host.facts->network.cards[0].megabits = 100'000;
  EXPECT_EQ(check_card_speed(job).size(), 1u);  // one connection may not fill more than 10 Gbit/s
  EXPECT_NE(check_card_speed(job)[0].sentence.find("the card can do 10 Gbit/s"), std::string::npos);
}

TEST(LinkChecks, ALongRoundTripIsNamed) {
  Examination job = good_job(3);
  for (MeasuredLink& link : job.links)
    if (link.card == 0 && link.to == 2) link.round_trip = 5'000'000;
  const std::vector<Finding> found = check_latency(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].hosts, Hosts{"h2"});
  EXPECT_NE(found[0].sentence.find("takes 5 ms; 0.1 ms is usual"), std::string::npos) << found[0].sentence;
}

TEST(LinkChecks, TheSumSaysThatItIsASample) {
  Examination job = good_job(2);
  EXPECT_EQ(sum_up_links(job)[0].sentence, "eth0: 1 connection, 0.992 Gbit/s, round trip 0.1 ms.");
  job.partners = 15;
  EXPECT_NE(sum_up_links(job)[0].sentence.find("sample: each host has measured with 15 others"),
            std::string::npos);
}

// docker0 of h0 leads nowhere; eth0 is the second card there, and the first of h1.
TEST(LinkChecks, CardsOfUnequalNumbersConnectTheHosts) {
  Examination job = good_job(2);
  job.hosts[0].facts->network.cards = {{"docker0", "172.17.0.1", 1, 0, 1500},
                                       {"eth0", "10.77.0.1", 1, 0, 1500}};
  job.hosts[1].facts->network.cards = {{"eth0", "10.77.0.2", 1, 0, 1500}};
  job.tried = {{0, 1, 0, 0, "no answer within 2 s"}, {0, 1, 1, 0, ""}, {1, 0, 0, 1, ""}};
  job.links = {{0, 1, 1, 0, 100'000, 125'000'000, 125'000'000, ""}};
  const std::vector<Finding> found = check_connections(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].state, State::warning);
  EXPECT_NE(found[0].sentence.find("docker0 of h0 to eth0 of h1"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].remedy.find("RUEDA_RAILS=eth0"), std::string::npos) << found[0].remedy;
}

TEST(LinkChecks, ABridgeWithTheSameAddressOnBothHostsIsNoFault) {
  Examination job = good_job(2);
  for (ExaminedHost& host : job.hosts) host.facts->network.cards[1] = {"docker0", "172.17.0.1", 1, 0, 1500};
  cut(job, [](const TriedLink& link) { return link.card == 1; });
  EXPECT_TRUE(check_connections(job).empty());
  cut(job, [](const TriedLink&) { return true; });
  EXPECT_TRUE(has_error(check_connections(job)));
}

TEST(LinkChecks, CardsAreComparedWithThoseOfTheirSpeed) {
  Examination job = good_job(3);
  for (ExaminedHost& host : job.hosts) {
    host.facts->network.cards[0].megabits = 10'000;
    host.facts->network.cards[1].megabits = 1000;
  }
  for (MeasuredLink& link : job.links)
    if (link.card == 0) link.sent = link.received = 1'200'000'000;
  EXPECT_TRUE(check_bandwidth(job).empty());  // eth1 is slower than eth0, and as fast as it can be
  for (MeasuredLink& link : job.links)
    if (link.card == 0 && link.from == 0) link.sent = 700'000'000;
  EXPECT_TRUE(check_bandwidth(job).empty());  // above half of its card
  for (MeasuredLink& link : job.links)
    if (link.card == 1 && link.from == 0 && link.to == 2) link.sent = 10'000'000;
  EXPECT_EQ(check_bandwidth(job).size(), 1u);
}

TEST(LinkChecks, ConnectionsForWhichNoTimeWasLeftAreCounted) {
  Examination job = good_job(2);
  job.unmeasured = 3;
  EXPECT_EQ(sum_up_links(job).back().sentence, "3 connections were not measured: no time was left.");
}

}  // namespace
}  // namespace rueda
