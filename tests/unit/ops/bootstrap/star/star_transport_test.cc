// SPDX-License-Identifier: Apache-2.0
// Rank 0 and the others over loopback: the start, strangers, losses and the end.
#include "ops/bootstrap/star/star_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "tests/support/worlds/star_job.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// All are destroyed at the same time, as ranks end.
template <class... Ends>
Duration end_together(Ends&... ends) {
  const Time begin = clock_now();
  std::vector<std::thread> threads;
  (threads.emplace_back([&ends] { ends.reset(); }), ...);
  for (std::thread& thread : threads) thread.join();
  return clock_now() - begin;
}

TEST(StarTransport, EveryRankTalksToRankZeroWhicheverComesFirst) {
  constexpr Rank kSize = 9;
  Board board;
  std::vector<std::thread> leaves;
  for (Rank rank = 1; rank < kSize; ++rank) {
    leaves.emplace_back([&board, rank] {
      const auto leaf = make_leaf(board, rank, kSize);
      leaf->send(0, text(std::to_string(rank)));
      std::optional<Envelope> answer;
      EXPECT_TRUE(wait_until([&] { return (answer = leaf->receive()).has_value(); }));
      EXPECT_EQ(answer->bytes, Bytes(100'000 + static_cast<std::size_t>(rank), std::byte{7}));
      EXPECT_THAT(leaf->lost(clock_now()), IsEmpty());
      leaf->end_in_order();
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::thread([&board] {
    const auto root = make_root(board, kSize);
    std::set<Rank> heard;
    EXPECT_TRUE(wait_until([&] {
      while (std::optional<Envelope> envelope = root->receive()) {
        EXPECT_EQ(envelope->bytes, text(std::to_string(envelope->peer)));
        EXPECT_TRUE(heard.insert(envelope->peer).second);
      }
      return heard.size() == kSize - 1;
    }));
    for (Rank rank = 1; rank < kSize; ++rank)
      root->send(rank, Bytes(100'000 + static_cast<std::size_t>(rank), std::byte{7}));
    EXPECT_THAT(root->lost(clock_now()), IsEmpty());
    EXPECT_TRUE(root->drain() || wait_until([&] { return root->drain(); }));
    root->end_in_order();
  }).join();
  for (std::thread& leaf : leaves) leaf.join();
  EXPECT_TRUE(board.retired);
}

// Receives at both until `done`.
template <class Done>
bool step(StarRoot& root, std::span<StarLeaf* const> leaves, Done done) {
  return wait_until([&] {
    for (StarLeaf* leaf : leaves) leaf->receive();
    return done(root.receive());
  });
}

// One leaf that rank 0 has heard.
std::unique_ptr<StarLeaf> seated(Board& board, StarRoot& root, Rank rank, Rank size) {
  auto leaf = make_leaf(board, rank, size);
  leaf->send(0, text("here"));
  StarLeaf* const all[] = {leaf.get()};
  EXPECT_TRUE(
      step(root, all, [&](const std::optional<Envelope>& came) { return came && came->peer == rank; }));
  return leaf;
}

TEST(StarTransport, StrangersAreDroppedAndTheJobStarts) {
  Board board;
  auto root = make_root(board, 2);
  std::vector<OpenedSocket> strangers;
  for (int i = 0; i < 700; ++i) {
    strangers.push_back(connect_to(board.endpoint->addresses[0]));
    if (i % 2 == 0) ::send(strangers.back().socket.number(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
    if (i % 50 == 0) root->receive();
  }
  auto leaf = seated(board, *root, 1, 2);
  leaf->end_in_order();
  root->end_in_order();
  EXPECT_LT(end_together(root, leaf), std::chrono::milliseconds(500));
}

// Each look at what has come follows a sleep that would last for hours; few sleeps are enough.
TEST(StarTransport, ASleepEndsWhenSomethingComes) {
  constexpr auto kHours = std::chrono::hours(5);
  constexpr int kMostSleeps = 100;
  Board board;
  auto root = make_root(board, 2);
  std::thread other([&] {
    auto leaf = make_leaf(board, 1, 2);
    leaf->send(0, text("question"));
    std::optional<Envelope> answer;
    for (int sleeps = 0; !answer && sleeps < kMostSleeps; ++sleeps) {
      if (!(answer = leaf->receive())) EXPECT_TRUE(leaf->wait(kHours));
    }
    EXPECT_TRUE(answer && answer->bytes == text("answer"));
    leaf->end_in_order();
  });
  std::optional<Envelope> question;
  for (int sleeps = 0; !question && sleeps < kMostSleeps; ++sleeps) {
    if (!(question = root->receive())) EXPECT_TRUE(root->wait(kHours));
  }
  ASSERT_TRUE(question && question->bytes == text("question"));
  root->send(1, text("answer"));
  root->end_in_order();
  root.reset();
  other.join();
}

TEST(StarTransport, ALeafSaysWhyItHasNotReachedRankZero) {
  Board board;
  const auto leaf = make_leaf(board, 1, 2);
  leaf->receive();
  EXPECT_THAT(leaf->obstacle(), HasSubstr("nothing at the board"));
  EXPECT_FALSE(leaf->known_to_root_since());
  const auto root = make_root(board, 2);
  {
    std::lock_guard lock(board.mutex);
    board.endpoint->secret = random_key();
  }
  StarLeaf* const all[] = {leaf.get()};
  EXPECT_TRUE(step(*root, all, [&](const auto&) {
    return leaf->obstacle().find("know the key") != std::string::npos;
  })) << leaf->obstacle();
  {
    std::lock_guard lock(board.mutex);
    board.endpoint->addresses[0].port = 1;
  }
  EXPECT_TRUE(step(*root, all, [&](const auto&) { return leaf->obstacle().find("127.0.0.1:1: ") == 0; }))
      << leaf->obstacle();
}

TEST(StarTransport, AnOrderlyEndIsNoLossAndQuick) {
  Board board;
  auto root = make_root(board, 3);
  auto first = seated(board, *root, 1, 3), second = seated(board, *root, 2, 3);
  EXPECT_TRUE(first->known_to_root_since());
  second->end_in_order();
  std::thread other([&] { second.reset(); });
  const Time until = clock_now() + std::chrono::milliseconds(200);
  while (clock_now() < until) {
    root->receive();
    EXPECT_THAT(root->lost(clock_now()), IsEmpty());
  }
  first->end_in_order();
  root->end_in_order();
  EXPECT_LT(end_together(root, first), std::chrono::milliseconds(500));
  other.join();
}

TEST(StarTransport, AnEndWithoutAFarewellIsALoss) {
  Board board;
  auto root = make_root(board, 3);
  auto first = seated(board, *root, 1, 3), second = seated(board, *root, 2, 3);
  second->cut();
  std::vector<Rank> lost;
  EXPECT_TRUE(wait_until([&] {
    root->receive();
    return !(lost = root->lost(clock_now())).empty();
  }));
  EXPECT_THAT(lost, ElementsAre(2));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_THAT(root->lost(clock_now()), IsEmpty());
  root->send(1, text("welcome"));
  StarLeaf* const all[] = {first.get()};
  EXPECT_TRUE(wait_until([&] { return first->receive().has_value(); }));
  root->cut();
  EXPECT_TRUE(step(*root, all, [&](const auto&) { return !(lost = first->lost(clock_now())).empty(); }));
  EXPECT_THAT(lost, ElementsAre(0));
}

TEST(StarTransport, ARankThatLeavesDuringTheStartIsLostAndMayComeAgain) {
  for (const bool again : {false, true}) {
    Board board;
    auto root = make_root(board, 3);
    auto leaf = seated(board, *root, 1, 3);
    std::thread end([&] { leaf.reset(); });
    const Time begin = clock_now();
    std::vector<Rank> lost;
    while (clock_now() - begin < std::chrono::milliseconds(500)) {
      root->receive();
      EXPECT_THAT(root->lost(clock_now()), IsEmpty());
    }
    end.join();
    if (again) leaf = seated(board, *root, 1, 3);
    while (clock_now() - begin < std::chrono::seconds(3)) {
      root->receive();
      std::ranges::copy(root->lost(clock_now()), std::back_inserter(lost));
    }
    EXPECT_EQ(lost, again ? std::vector<Rank>{} : std::vector<Rank>{1});
  }
}

TEST(StarTransport, ARootThatEndsBeforeItHasSaidAnythingIsLookedForAgain) {
  Board board;
  auto root = make_root(board, 3);
  auto leaf = seated(board, *root, 1, 3);
  root.reset();
  root = make_root(board, 3);
  std::optional<Envelope> came;
  EXPECT_TRUE(wait_until([&] {
    leaf->receive();
    return (came = root->receive()).has_value();
  }));
  EXPECT_EQ(came->bytes, text("here"));
}

TEST(StarTransport, WhoDoesNotFitIsTurnedAwayInWords) {
  Board board;
  const auto root = make_root(board, 3);
  const auto first = seated(board, *root, 1, 3);
  const auto second = make_leaf(board, 1, 3), seventh = make_leaf(board, 7, 3),
             other = make_leaf(board, 2, 4);
  for (const auto& [leaf, words] :
       {std::pair(second.get(), "another process is rank 1 already"),
        std::pair(seventh.get(), "it says that it is rank 7 of 3, and rank 0 starts a job of 3 ranks"),
        std::pair(other.get(), "it says that it is rank 2 of 4, and rank 0 starts a job of 3 ranks")}) {
    std::string error;
    EXPECT_TRUE(wait_until([&] {
      root->receive();
      try {
        leaf->receive();
      } catch (const std::runtime_error& thrown) {
        error = thrown.what();
      }
      return !error.empty();
    }));
    EXPECT_THAT(error, HasSubstr(words));
  }
}

TEST(StarTransport, ARankOfAnotherJobWaitsForItsRoot) {
  Board board;
  auto root = make_root(board, 2, "job 0");
  const auto early = make_leaf(board, 1, 2, "job 1");
  early->send(0, text("next"));
  const auto leaf = make_leaf(board, 1, 2, "job 0");
  leaf->send(0, text("now"));
  std::optional<Envelope> came;
  EXPECT_TRUE(wait_until([&] {
    early->receive();
    leaf->receive();
    return (came = root->receive()).has_value();
  }));
  EXPECT_EQ(came->bytes, text("now"));
  const auto next = make_root(board, 2, "job 1");
  EXPECT_TRUE(wait_until([&] {
    early->receive();
    return (came = next->receive()).has_value();
  }));
  EXPECT_EQ(came->bytes, text("next"));
}

}  // namespace
}  // namespace rueda
