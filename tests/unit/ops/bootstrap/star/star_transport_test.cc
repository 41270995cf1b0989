// SPDX-License-Identifier: Apache-2.0
// Rank 0 and the others over loopback: the start, strangers, losses and the end.
#include "ops/bootstrap/star/star_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// An endpoint that threads share, as a store would hold it. A thread that looks for it may outlive the test.
struct Board {
  struct Shared {
    std::mutex mutex;
    std::optional<TcpEndpoint> endpoint;
    bool retired = false;
  };
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::mutex& mutex = shared->mutex;
  std::optional<TcpEndpoint>& endpoint = shared->endpoint;
  bool& retired = shared->retired;
};

class BoardAddress final : public RootAddress {
 public:
  explicit BoardAddress(const Board& board) : board_(board.shared) {}
  void publish(const TcpEndpoint& endpoint) override {
    std::lock_guard lock(board_->mutex);
    board_->endpoint = endpoint;
  }
  std::optional<TcpEndpoint> look() override {
    std::lock_guard lock(board_->mutex);
    return board_->endpoint;
  }
  void retire() override {
    std::lock_guard lock(board_->mutex);
    board_->retired = true;
  }
  std::string in_words() const override { return "the board"; }

 private:
  std::shared_ptr<Board::Shared> board_;
};

constexpr auto kSilence = std::chrono::seconds(10);

std::unique_ptr<StarRoot> make_root(Board& board, Rank size, const std::string& job = "job") {
  OpenedSocket opened = listen_at(kTestAddress);
  StarListener listener;
  listener.endpoint = {random_key(), {address_of(opened.socket, kTestAddress)}};
  listener.sockets.push_back(std::move(opened.socket));
  return std::make_unique<StarRoot>(StarMember{0, size, job}, std::move(listener),
                                    std::make_unique<BoardAddress>(board), kSilence);
}

std::unique_ptr<StarLeaf> make_leaf(Board& board, Rank rank, Rank size, const std::string& job = "job") {
  return std::make_unique<StarLeaf>(StarMember{rank, size, job}, std::make_unique<BoardAddress>(board),
                                    kSilence);
}

// All are destroyed at the same time, as ranks end.
template <class... Ends>
Duration end_together(Ends&... ends) {
  const Time begin = clock_now();
  std::vector<std::thread> threads;
  (threads.emplace_back([&ends] { ends.reset(); }), ...);
  for (std::thread& thread : threads) thread.join();
  return clock_now() - begin;
}

Bytes text(const std::string& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
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

StarListener listener_of_relay() {
  OpenedSocket opened = listen_at(kTestAddress);
  StarListener listener;
  listener.endpoint = {random_key(), {address_of(opened.socket, kTestAddress)}};
  listener.sockets.push_back(std::move(opened.socket));
  return listener;
}

// Three ranks besides rank 0, each of which can relay.
struct RelayJob {
  static constexpr Rank kSize = 4;
  Board board;
  std::unique_ptr<StarRoot> root = make_root(board, kSize);
  std::vector<std::unique_ptr<StarLeaf>> leaves;

  RelayJob() {
    for (Rank rank = 1; rank < kSize; ++rank) {
      leaves.push_back(std::make_unique<StarLeaf>(StarMember{rank, kSize, "job"},
                                                  std::make_unique<BoardAddress>(board), kSilence,
                                                  listener_of_relay()));
      leaves.back()->send(0, text("here"));
    }
    std::set<Rank> heard;
    EXPECT_TRUE(wait_until([&] {
      for (auto& each : leaves) each->receive();
      if (const auto came = root->receive()) heard.insert(came->peer);
      return heard.size() == leaves.size();
    }));
  }
  StarLeaf& leaf(Rank rank) { return *leaves[static_cast<std::size_t>(rank - 1)]; }
};

TEST(StarTransport, TheWelcomeGoesFromRankToRank) {
  RelayJob job;
  const Bytes welcome(3'000'000, std::byte{7});
  job.leaf(3).take_welcome_from(2, job.leaf(2).relay());
  job.leaf(2).take_welcome_from(1, job.leaf(1).relay());
  job.root->send(1, welcome);
  std::map<Rank, Rank> came_from;
  EXPECT_TRUE(wait_until([&] {
    job.root->drain();
    for (Rank rank = 1; rank < RelayJob::kSize; ++rank) {
      if (const auto came = job.leaf(rank).receive()) {
        EXPECT_EQ(came->bytes, welcome);
        came_from[rank] = came->peer;
        if (rank + 1 < RelayJob::kSize) job.leaf(rank).send(rank + 1, welcome);
      }
    }
    return came_from.size() == 3;
  }));
  EXPECT_THAT(came_from, ElementsAre(std::pair(1, 0), std::pair(2, 1), std::pair(3, 2)));
  EXPECT_TRUE(wait_until([&] { return job.leaf(1).drain() && job.leaf(2).drain() && job.leaf(3).drain(); }));
  EXPECT_EQ(job.leaf(1).relay(), "");  // it listens no more
}

TEST(StarTransport, ARelayWaitsSomeSecondsOnlyForARankThatDoesNotAsk) {
  RelayJob job;
  job.leaf(1).send(2, text("welcome"));
  const Time begin = clock_now();
  EXPECT_FALSE(job.leaf(1).drain());
  EXPECT_TRUE(wait_until([&] { return job.leaf(1).drain(); }));
  EXPECT_GT(clock_now() - begin, std::chrono::seconds(2));
}

TEST(StarTransport, StrangersGetNoWelcome) {
  RelayJob job;
  const std::string card = job.leaf(1).relay();
  TcpEndpoint guessed = *tcp_endpoint_from(card);
  guessed.secret = random_key();
  job.leaf(1).send(2, text("welcome"));
  job.leaf(2).take_welcome_from(1, to_bytes(guessed));
  EXPECT_TRUE(wait_until([&] {
    job.leaf(1).receive();
    EXPECT_FALSE(job.leaf(2).receive());
    return job.leaf(2).obstacle().find("know the key") != std::string::npos;
  })) << job.leaf(2).obstacle();
  EXPECT_THROW(job.leaf(3).take_welcome_from(1, "no card"), BackendError);
  job.leaf(2).take_welcome_from(1, card);
  std::optional<Envelope> came;
  EXPECT_TRUE(wait_until([&] {
    job.leaf(1).receive();
    return (came = job.leaf(2).receive()).has_value();
  }));
  EXPECT_EQ(came->bytes, text("welcome"));
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
