// SPDX-License-Identifier: Apache-2.0
// What a rail may hold, on a network that is made up.
#include "ops/tcp/rail_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "ops/tcp/frame.h"
#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kLeast = 4 * RailWindow::kShort;

// Purpose: a card that carries so many bytes a second, and what one rail has given it. Owned by a test.
class MadeUpRail {
 public:
  explicit MadeUpRail(double rate, Duration trip = microseconds(100)) : rate_(rate), trip_(trip) {}

  // Gives it what the pace lets it have, every so often.
  void run(Duration time, Duration step = microseconds(100)) {
    for (const Time end = now_ + time; now_ < end; now_ += step) {
      arrived_ = std::min<double>(written_, arrived_ + rate_ * std::chrono::duration<double>(step).count());
      while (const std::size_t room = pace_.room(sight(), written_, now_)) {
        EXPECT_LE(room, Frame::kMostData);
        if (sight().held + room > kSocket) break;
        written_ += room;
      }
      most_held_ = std::max(most_held_, sight().held);
      idle_ += sight().held == 0;
    }
  }
  void rest(Duration time) {
    now_ += time;
    arrived_ = static_cast<double>(written_);
  }
  void set_rate(double rate) { rate_ = rate; }
  RailWindow::Sight sight() const {
    return {static_cast<std::size_t>(static_cast<double>(written_) - arrived_), trip_};
  }
  // Since the last time.
  std::size_t take_most_held() { return std::exchange(most_held_, 0); }
  int take_idle() { return std::exchange(idle_, 0); }

 private:
  static constexpr std::size_t kSocket = 8 << 20;  // takes no more

  RailWindow pace_{2};
  double rate_;
  Duration trip_;
  Time now_{seconds(1)};
  std::uint64_t written_ = 0;
  double arrived_ = 0;
  std::size_t most_held_ = 0;
  int idle_ = 0;
};

TEST(RailWindow, HoldsWhatTheRailCarriesInAFewMilliseconds) {
  for (const double rate : {12.5e6, 25e6, 125e6, 1.25e9}) {
    MadeUpRail rail(rate);
    rail.run(seconds(2));  // it is known after that
    rail.take_most_held();
    rail.take_idle();
    rail.run(seconds(1));
    EXPECT_LE(static_cast<double>(rail.take_most_held()), std::max(0.005 * rate, kLeast)) << rate;
    EXPECT_EQ(rail.take_idle(), 0) << rate;
  }
}

TEST(RailWindow, FollowsTheRate) {
  MadeUpRail rail(25e6);
  rail.run(seconds(2));
  rail.set_rate(6.25e6);
  rail.run(seconds(1));
  rail.take_most_held();
  rail.run(seconds(1));
  EXPECT_LE(static_cast<double>(rail.take_most_held()), 1.05 * kLeast);
  rail.set_rate(250e6);
  rail.run(milliseconds(200));
  rail.take_idle();
  rail.run(seconds(1));
  EXPECT_EQ(rail.take_idle(), 0);
}

// Where cores are short, what feeds the rail comes every 10 ms only.
TEST(RailWindow, HoldsMoreWhereItRunsDry) {
  MadeUpRail rail(25e6);
  rail.run(seconds(1));
  rail.run(seconds(1), milliseconds(10));
  rail.take_idle();
  rail.run(seconds(1), milliseconds(10));
  EXPECT_LE(rail.take_idle(), 20);  // of 100 looks
  rail.run(seconds(1));
  rail.take_most_held();
  rail.run(seconds(1));
  EXPECT_LE(static_cast<double>(rail.take_most_held()), 0.005 * 25e6);
}

TEST(RailWindow, ALongWayMayHoldWhatIsOnIt) {
  MadeUpRail rail(125e6, milliseconds(20));
  rail.run(seconds(2));
  rail.run(seconds(1));
  EXPECT_GE(rail.take_most_held(), static_cast<std::size_t>(125e6 * 0.02));
}

TEST(RailWindow, ACableThatIsBackCarriesAgain) {
  MadeUpRail rail(25e6);
  rail.run(seconds(2));
  rail.set_rate(0);
  rail.run(seconds(3));
  rail.set_rate(25e6);
  rail.run(milliseconds(100));
  rail.take_idle();
  rail.run(seconds(1));
  EXPECT_EQ(rail.take_idle(), 0);
}

// The time in which there was nothing to send says nothing about the rail.
TEST(RailWindow, PausesDoNotCount) {
  MadeUpRail rail(25e6);
  rail.run(seconds(2));
  for (int i = 0; i < 20; ++i) {
    rail.rest(milliseconds(500));
    rail.run(milliseconds(20));
  }
  rail.take_idle();
  rail.run(milliseconds(100));
  EXPECT_EQ(rail.take_idle(), 0);
  EXPECT_GE(rail.take_most_held(), 50'000U);
}

TEST(RailWindow, SeesWhatASocketHolds) {
  auto [here, there] = tcp_pair();
  EXPECT_EQ(RailWindow::look_at(here.number()).held, 0U);
  const Bytes much(64 << 20);
  const ssize_t sent = ::send(here.number(), much.data(), much.size(), MSG_DONTWAIT);
  ASSERT_GT(sent, 0);
  EXPECT_GT(RailWindow::look_at(here.number()).held, 0U);  // nobody reads
  EXPECT_LE(RailWindow::look_at(here.number()).held, static_cast<std::size_t>(sent));
  EXPECT_LT(RailWindow::look_at(here.number()).trip, seconds(1));
}

}  // namespace
}  // namespace rueda
