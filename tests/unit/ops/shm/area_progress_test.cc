// SPDX-License-Identifier: Apache-2.0
// Who is woken when a rank says how far it has come.
#include "ops/shm/area_progress.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "core/control/messages/control_message.h"
#include "ops/shm/local_peers.h"

namespace rueda {
namespace {

constexpr Rank kRanks = 4;
constexpr std::uint64_t kPlan = 7;

// All ranks of a host in one thread, with one Plan in the first area.
class AreaOfFour : public testing::Test {
 protected:
  AreaOfFour() {
    Welcome welcome;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      peers_.push_back(std::make_unique<LocalPeers>(rank, Segment::make().segment));
      welcome.hosts.emplace_back("here");
      welcome.process_ids.push_back(rank);
      welcome.peer_infos.push_back(peers_.back()->peer_info());
    }
    constexpr std::array<Rank, kRanks> kAll{0, 1, 2, 3};
    for (Rank rank = 0; rank < kRanks; ++rank) {
      peers_[rank]->connect(welcome);
      areas_.push_back(std::make_unique<AreaProgress>(
          kPlan, WorkContext{*peers_[rank]->group_of(kAll), 0, last_[rank]}, lists_[rank]));
    }
  }

  // Whether rank 0, which sleeps, is woken by what another rank says.
  template <class Say>
  bool wakes(Say say) {
    EventCount& doorbell = peers_[0]->doorbell(0);
    const std::uint32_t heard = doorbell.listen();
    say();
    const bool woken = doorbell.heard() != heard;
    doorbell.stay_awake();
    return woken;
  }

  std::vector<std::unique_ptr<LocalPeers>> peers_;
  std::array<LastUse, kRanks> last_{};
  std::array<InlineVectors, kRanks> lists_;
  std::vector<std::unique_ptr<AreaProgress>> areas_;
};

TEST_F(AreaOfFour, OnlyTheMemberThatIsAwaitedWakes) {
  AreaProgress& own = *areas_[0];
  own.say_written(1);
  EXPECT_FALSE(own.all_written(1));  // awaits rank 1
  EXPECT_FALSE(wakes([&] { areas_[3]->say_written(1); }));
  EXPECT_TRUE(wakes([&] { areas_[1]->say_written(1); }));
  EXPECT_FALSE(own.all_written(1));  // awaits rank 2
  EXPECT_FALSE(wakes([&] { areas_[1]->say_written(2); }));
  EXPECT_TRUE(wakes([&] { areas_[2]->say_written(1); }));
  EXPECT_TRUE(own.all_written(1));
}

TEST_F(AreaOfFour, CountsOfTwoKindsAreAwaitedAtTheSameTime) {
  AreaProgress& own = *areas_[0];
  own.say_written(2);
  own.say_taken(1);
  areas_[1]->say_written(2);
  EXPECT_FALSE(own.all_written(2));  // awaits rank 2
  EXPECT_FALSE(own.all_taken(1));    // awaits rank 1
  EXPECT_FALSE(wakes([&] { areas_[2]->say_taken(1); }));
  EXPECT_TRUE(wakes([&] { areas_[2]->say_written(2); }));
  EXPECT_TRUE(wakes([&] { areas_[1]->say_taken(1); }));
}

TEST_F(AreaOfFour, WhoAbandonsThePlanWakesAll) {
  areas_[0]->say_written(1);
  EXPECT_FALSE(areas_[0]->all_written(1));  // awaits rank 1
  EXPECT_TRUE(wakes([&] { areas_[3]->say_void(); }));
}

}  // namespace
}  // namespace rueda
