// SPDX-License-Identifier: Apache-2.0
// Who of a host is reached, and whose end is a loss.
#include "ops/shm/local_peers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "core/control/messages/control_message.h"

namespace rueda {
namespace {

std::shared_ptr<LocalPeers> local_peers(Rank rank) {
  return std::make_shared<LocalPeers>(rank, Segment::make().segment);
}

// A process that is rank 1: tells its handle, and after `over` ends as it is told.
class Other {
 public:
  explicit Other(bool ends_its_job) {
    EXPECT_EQ(pipe(handle_.data()), 0);
    EXPECT_EQ(pipe(over_.data()), 0);
    process_ = fork();
    if (process_ != 0) return;
    const std::shared_ptr<LocalPeers> own = local_peers(1);
    const std::string handle = own->peer_info();
    char byte = 0;
    if (::write(handle_[1], handle.data(), handle.size()) < 0 || ::read(over_[0], &byte, 1) < 0) _exit(1);
    if (ends_its_job) own->end();
    _exit(0);
  }
  ~Other() {
    for (int file : {handle_[0], handle_[1], over_[0], over_[1]}) close(file);
  }

  std::string peer_info() const {
    std::array<char, 256> bytes{};
    const ssize_t length = ::read(handle_[0], bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
  }
  void end() const {
    EXPECT_EQ(::write(over_[1], "x", 1), 1);
    EXPECT_EQ(waitpid(process_, nullptr, 0), process_);
  }
  void kill() const {
    ::kill(process_, SIGKILL);
    EXPECT_EQ(waitpid(process_, nullptr, 0), process_);
  }

 private:
  std::array<int, 2> handle_{}, over_{};
  pid_t process_ = 0;
};

std::vector<Rank> lost_within(LocalPeers& own, std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < end) {
    if (std::vector<Rank> lost = own.lost(clock_now()); !lost.empty()) return lost;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

TEST(LocalPeers, AKilledProcessIsLostOnce) {
  const Other other(true);
  const std::shared_ptr<LocalPeers> own = local_peers(0);
  own->connect({{}, {"here", "here"}, {1, 2}, {own->peer_info(), other.peer_info()}});
  ASSERT_TRUE(own->reaches(1));
  EXPECT_TRUE(own->lost(clock_now()).empty());
  other.kill();
  EXPECT_EQ(lost_within(*own, std::chrono::seconds(5)), std::vector<Rank>{1});
  EXPECT_TRUE(lost_within(*own, std::chrono::milliseconds(200)).empty());
}

TEST(LocalPeers, AProcessThatLeavesInTheMiddleIsLostButNotOneWhoseJobHasEnded) {
  for (const bool ends_its_job : {false, true}) {
    const Other other(ends_its_job);
    const std::shared_ptr<LocalPeers> own = local_peers(0);
    own->connect({{}, {"here", "here"}, {1, 2}, {own->peer_info(), other.peer_info()}});
    ASSERT_TRUE(own->reaches(1));
    other.end();
    EXPECT_EQ(lost_within(*own, std::chrono::milliseconds(300)).size(), ends_its_job ? 0u : 1u);
  }
}

TEST(LocalPeers, WhoCannotBeMappedIsNotReached) {
  const std::shared_ptr<LocalPeers> own = local_peers(0), thread = local_peers(1), elsewhere = local_peers(2);
  const LocalPeers nobody(3, nullptr);
  EXPECT_EQ(nobody.peer_info(), "");
  own->connect(
      {{},
       {"here", "here", "there", "here", "here"},
       {1, 1, 1, 1, 1},
       {own->peer_info(), thread->peer_info(), elsewhere->peer_info(), nobody.peer_info(), "no handle"}});
  EXPECT_EQ(own->of_host(), (std::vector<Rank>{0, 1, 3, 4}));
  EXPECT_TRUE(own->reaches(0) && own->reaches(1));
  EXPECT_FALSE(own->reaches(2) || own->reaches(3) || own->reaches(4));
  EXPECT_EQ(&own->contents(1), &thread->contents(1));  // one mapping in one process
}

TEST(LocalPeers, APeerGroupIsFoundOnceAndOnlyWhereAllAreReached) {
  const std::shared_ptr<LocalPeers> own = local_peers(1), other = local_peers(2);
  own->connect(Welcome{{}, {"here", "here", "here"}, {1, 2, 3}, {"", own->peer_info(), other->peer_info()}});
  const std::array<Rank, 2> pair{1, 2}, with_who_has_no_segment{0, 1};
  const PeerGroup* peers = own->group_of(pair);
  ASSERT_NE(peers, nullptr);
  EXPECT_EQ(own->group_of(pair), peers);
  EXPECT_EQ(own->group_of(with_who_has_no_segment), nullptr);
  ASSERT_EQ(peers->size(), 2u);
  EXPECT_EQ(peers->rank(), 1);
  EXPECT_EQ(peers->members[1].rank, 2);
  EXPECT_EQ(peers->members[1].contents, &own->contents(2));
  EXPECT_EQ(peers->own_window, nullptr);  // nobody has one
}

// Also where nobody asks for anything.
TEST(LocalPeers, DoorsCloseWhenAllOfTheHostHaveMet) {
  const std::shared_ptr<LocalPeers> own = local_peers(0), other = local_peers(1);
  const Welcome welcome{{}, {"here", "here"}, {1, 2}, {own->peer_info(), other->peer_info()}};
  const auto is_open = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // one look in 50
    own->lost(clock_now());
    const SegmentHandle handle = *segment_handle_from(own->peer_info());
    const Descriptor given(
        FdPassing::ask(handle, std::chrono::seconds(1), [&] { own->lost(clock_now()); }).file);
    return given.number() >= 0;
  };
  EXPECT_TRUE(is_open());
  own->connect(welcome);
  EXPECT_TRUE(is_open());
  other->connect(welcome);
  EXPECT_FALSE(is_open());
}

TEST(LocalPeers, WindowsAreMappedWhenTheyAreFirstNeeded) {
  const auto with_window = [](Rank rank) {
    return std::make_shared<LocalPeers>(rank, Segment::make().segment, Window::make(rank, 1 << 20));
  };
  const std::shared_ptr<LocalPeers> own = with_window(0), other = with_window(1), without = local_peers(2);
  own->connect(Welcome{
      {}, {"here", "here", "here"}, {1, 2, 3}, {own->peer_info(), other->peer_info(), without->peer_info()}});
  const std::array<Rank, 2> pair{0, 1}, with_who_has_none{0, 2};
  const PeerGroup* peers = own->group_of(pair);
  ASSERT_TRUE(peers != nullptr && peers->own_window != nullptr);
  EXPECT_EQ(*peers->members[1].window, nullptr);
  EXPECT_TRUE(peers->map_windows());
  ASSERT_NE(*peers->members[1].window, nullptr);
  EXPECT_EQ((*peers->members[1].window)->handle(), other->contents(1).window);
  EXPECT_EQ(own->group_of(with_who_has_none)->own_window, nullptr);
}

}  // namespace
}  // namespace rueda
