// SPDX-License-Identifier: Apache-2.0
// The list of ranks on its way past rank 0, over loopback.
#include "ops/bootstrap/star/welcome_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/support/worlds/star_job.h"

namespace rueda {
namespace {

using testing::ElementsAre;

// Three ranks besides rank 0, each of which can relay.
struct RelayJob {
  static constexpr Rank kSize = 4;
  Board board;
  std::unique_ptr<StarRoot> root = make_root(board, kSize);
  std::vector<std::unique_ptr<StarLeaf>> leaves;

  RelayJob() {
    for (Rank rank = 1; rank < kSize; ++rank) {
      leaves.push_back(make_leaf(board, rank, kSize, "job", star_listener()));
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

TEST(WelcomeRelay, TheWelcomeGoesFromRankToRank) {
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

TEST(WelcomeRelay, ARelayWaitsSomeSecondsOnlyForARankThatDoesNotAsk) {
  RelayJob job;
  job.leaf(1).send(2, text("welcome"));
  const Time begin = clock_now();
  EXPECT_FALSE(job.leaf(1).drain());
  EXPECT_TRUE(wait_until([&] { return job.leaf(1).drain(); }));
  EXPECT_GT(clock_now() - begin, std::chrono::seconds(2));
}

TEST(WelcomeRelay, StrangersGetNoWelcome) {
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

}  // namespace
}  // namespace rueda
