// SPDX-License-Identifier: Apache-2.0
// Cards and names of this host.
#include "launcher/doctor/network_facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace rueda {
namespace {

using namespace std::chrono_literals;

TEST(NetworkFacts, EachCardStandsOnceAndLoopbackDoesNot) {
  std::set<std::string> names;
  for (const agents::CardFacts& card : cards_here("")) {
    EXPECT_NE(card.name, "lo");
    EXPECT_TRUE(names.insert(card.name).second) << card.name;
    EXPECT_FALSE(card.address.empty());
  }
}

TEST(NetworkFacts, CardsCanBeChosenByNameAndByAddress) {
  const std::vector<agents::CardFacts> by_name = cards_here("lo");
  ASSERT_EQ(by_name.size(), 1u);
  EXPECT_EQ(by_name[0].address, "127.0.0.1");
  EXPECT_EQ(cards_here("127.0.0.1"), by_name);
  EXPECT_TRUE(cards_here("no-such-card").empty());
  EXPECT_EQ(cards_here("127.0.0.2").at(0).address, "127.0.0.2");  // as ranks take it
  EXPECT_EQ(absent_cards("lo,no-such-card,127.0.0.2,"), std::vector<std::string>{"no-such-card"});
}

class SpeedOfCard : public testing::Test {
 protected:
  SpeedOfCard() {
    std::string path = testing::TempDir() + "cardXXXXXX";
    folder_ = ::mkdtemp(path.data());
    std::ofstream(folder_ / "speed") << "25000\n";
  }
  ~SpeedOfCard() override { std::filesystem::remove_all(folder_); }

  void set_driver(const std::string& name) {
    std::filesystem::create_directories(folder_ / "device");
    std::filesystem::remove(folder_ / "device" / "driver");
    std::filesystem::create_symlink("/sys/bus/pci/drivers/" + name, folder_ / "device" / "driver");
  }

  std::filesystem::path folder_;
};

TEST_F(SpeedOfCard, IsTakenFromADeviceAlone) {
  EXPECT_EQ(speed_of_card(folder_), 0);  // as of veth and bridges
  set_driver("mlx5_core");
  EXPECT_EQ(speed_of_card(folder_), 25'000);
  set_driver("virtio_net");
  EXPECT_EQ(speed_of_card(folder_), 0);
  set_driver("igb");
  std::ofstream(folder_ / "speed") << "-1\n";
  EXPECT_EQ(speed_of_card(folder_), 0);
}

TEST(NetworkFacts, NamesHaveAddressesOrAReason) {
  const auto [found, left] = look_up({"localhost", "no-such-host.invalid", "127.0.0.1"}, 60s);
  EXPECT_EQ(left, 0);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_FALSE(found[0].addresses.empty());
  EXPECT_FALSE(found[1].problem.empty());
  EXPECT_EQ(found[2].addresses.front(), "127.0.0.1");
  const FoundNames late = look_up(std::vector<std::string>(1000, "localhost"), 0s);
  EXPECT_GT(late.left, 0);
  EXPECT_EQ(late.names.size() + static_cast<std::size_t>(late.left), 1000u);
}

TEST(NetworkFacts, NamesWithoutAFaultAreNotDoubtful) {
  const std::vector<agents::NameFacts> all{{"a", {"10.0.0.1"}, ""},
                                           {"b", {}, "not known"},
                                           {"c", {"10.0.0.1", "127.0.1.1"}, ""},
                                           {"d", {"::1"}, ""}};
  EXPECT_EQ(doubtful(all, 9), (std::vector{all[1], all[2], all[3]}));
  EXPECT_EQ(doubtful(all, 1), std::vector{all[1]});
}

}  // namespace
}  // namespace rueda
