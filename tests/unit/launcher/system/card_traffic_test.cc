// SPDX-License-Identifier: Apache-2.0
// The speed of a card comes from the connections that send through it.
#include "launcher/system/card_traffic.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

const std::map<std::string, std::string> kCards{{"10.0.0.1", "eth0"}, {"10.1.0.1", "eth1"}};
constexpr std::int64_t kNow = 1'000'000'000;

TEST(CardTraffic, MeasuresWhileTheCardSends) {
  CardTraffic traffic;
  EXPECT_TRUE(traffic.speeds({{1, "10.0.0.1", 500, 900}}, kCards, kNow).empty()) << "a first look";
  // 1 MB in 100 ms, whatever time has passed.
  auto speeds = traffic.speeds({{1, "10.0.0.1", 1'000'500, 100'900}}, kCards, kNow);
  EXPECT_NEAR(speeds.at("eth0").bytes_per_second, 1e7, 1);
  EXPECT_NEAR(speeds.at("eth0").sending_seconds, 0.1, 1e-6);
  EXPECT_FALSE(speeds.contains("eth1"));
  speeds = traffic.speeds({{1, "10.0.0.1", 1'000'500, 100'900}}, kCards, kNow);
  EXPECT_NEAR(speeds.at("eth0").bytes_per_second, 1e7, 1) << "it sent nothing";
}

TEST(CardTraffic, ConnectionsOfACardAddUp) {
  CardTraffic traffic;
  traffic.speeds({{1, "10.0.0.1", 0, 0}, {2, "10.0.0.1", 0, 0}, {3, "10.1.0.1", 0, 0}, {4, "8.8.8.8", 0, 0}},
                 kCards, kNow);
  const auto speeds = traffic.speeds({{1, "10.0.0.1", 1'000'000, 100'000},
                                      {2, "10.0.0.1", 500'000, 50'000},
                                      {3, "10.1.0.1", 1'000'000, 1'000'000},
                                      {4, "8.8.8.8", 1'000'000, 1'000'000},
                                      {5, "10.0.0.1", 1'000'000, 1'000'000}},
                                     kCards, kNow);
  EXPECT_NEAR(speeds.at("eth0").bytes_per_second, 1.5e7, 1);
  EXPECT_NEAR(speeds.at("eth1").bytes_per_second, 1e6, 1);
  EXPECT_EQ(speeds.size(), 2u);
}

TEST(CardTraffic, AConnectionThatCarriesLittleDoesNotCount) {
  CardTraffic traffic;
  traffic.speeds({{1, "10.0.0.1", 0, 0}, {2, "10.0.0.1", 0, 0}}, kCards, kNow);
  const auto speeds =
      traffic.speeds({{1, "10.0.0.1", 4'000'000, 40'000}, {2, "10.0.0.1", 500'000, 200'000}}, kCards, kNow);
  EXPECT_NEAR(speeds.at("eth0").bytes_per_second, 1e8, 1) << "an upload to somewhere slow";
}

TEST(CardTraffic, AnIdleCardHasNoSpeed) {
  CardTraffic traffic;
  traffic.speeds({{1, "10.0.0.1", 0, 0}}, kCards, kNow);
  const std::vector<ConnectionCount> later{{1, "10.0.0.1", 1'000'000, 100'000}};
  EXPECT_EQ(traffic.speeds(later, kCards, kNow).size(), 1u);
  EXPECT_EQ(traffic.speeds(later, kCards, kNow + 2'000'000'000).size(), 1u);
  EXPECT_TRUE(traffic.speeds(later, kCards, kNow + 4'000'000'000).empty());
}

TEST(CardTraffic, ForgetsOldSpeeds) {
  CardTraffic traffic;
  std::uint64_t bytes = 0, microseconds = 0;
  traffic.speeds({{1, "10.0.0.1", 0, 0}}, kCards, kNow);
  const auto send = [&](double rate) {
    microseconds += 500'000;
    bytes += static_cast<std::uint64_t>(rate / 2);
    return traffic.speeds({{1, "10.0.0.1", bytes, microseconds}}, kCards, kNow).at("eth0").bytes_per_second;
  };
  for (int i = 0; i < 10; ++i) EXPECT_NEAR(send(2e7), 2e7, 10);
  double rate = 0;
  for (int i = 0; i < 20; ++i) rate = send(1e6);
  EXPECT_LT(rate, 1.2e6);
}

TEST(CardTraffic, TheKernelTellsOfConnections) {
  for (const ConnectionCount& each : tcp_connections()) EXPECT_FALSE(each.local.empty());
  for (const auto& [address, card] : cards_by_address()) EXPECT_NE(card, "lo") << address;
}

}  // namespace
}  // namespace rueda
