// SPDX-License-Identifier: Apache-2.0
// Answers of ranks are collected within bounds, whatever agents send.
#include "launcher/protocol/rank_requests.h"

#include <gtest/gtest.h>

#include <string>

namespace rueda {
namespace {

using agents::RequestKind;

const RankRequests::Time kBegin{std::chrono::hours(1)};
const std::map<int, int> kHosts{{0, 0}, {1, 0}, {2, 1}};  // of ranks

TEST(RankRequests, PutsPartsTogetherAndEndsWithTheLastRank) {
  RankRequests requests;
  EXPECT_FALSE(requests.next_time());
  const agents::Request request = requests.begin(RequestKind::stacks, "words", kHosts, kBegin);
  EXPECT_EQ(request.text, "words");
  EXPECT_EQ(requests.next_time(), kBegin + RankRequests::kLongest + 2 * RankRequests::kForRank);
  requests.hear(0, {request.number, 0, false, "one "});
  requests.hear(0, {request.number, 1, true, ""});
  requests.hear(1, {request.number, 2, true, "three"});
  EXPECT_FALSE(requests.take(request.number, kBegin)) << "rank 0 has more to say";
  requests.hear(0, {request.number, 0, true, "and more"});
  const std::optional<RankReplies> replies = requests.take(request.number, kBegin);
  ASSERT_TRUE(replies);
  EXPECT_EQ(replies->by_rank, (std::map<int, std::string>{{0, "one and more"}, {1, ""}, {2, "three"}}));
  EXPECT_TRUE(replies->silent.empty());
  EXPECT_FALSE(requests.take(request.number, kBegin)) << "once";
  EXPECT_FALSE(requests.next_time());
}

TEST(RankRequests, NamesTheRanksThatAreSilentOrStopInTheMiddle) {
  RankRequests requests;
  const agents::Request request = requests.begin(RequestKind::stacks, "", kHosts, kBegin);
  requests.hear(0, {request.number, 0, false, "begun"});
  requests.hear(0, {request.number, 1, true, "whole"});
  const std::optional<RankReplies> replies =
      requests.take(request.number, kBegin + RankRequests::kLongestOfAll);
  ASSERT_TRUE(replies);
  EXPECT_EQ(replies->by_rank, (std::map<int, std::string>{{1, "whole"}}));
  EXPECT_EQ(replies->silent, (std::set<int>{0, 2}));
}

TEST(RankRequests, TakesNothingFromStrangers) {
  RankRequests requests;
  const agents::Request first = requests.begin(RequestKind::stacks, "", kHosts, kBegin);
  const agents::Request second = requests.begin(RequestKind::recordings, "", {{0, 0}}, kBegin);
  EXPECT_NE(first.number, second.number);
  requests.hear(1, {second.number, 0, true, "of another host"});
  requests.hear(0, {second.number, 7, true, "of no rank"});
  requests.hear(0, {second.number + 1, 0, true, "of no request"});
  EXPECT_FALSE(requests.take(second.number, kBegin));
  requests.hear(0, {second.number, 0, true, "well"});
  requests.hear(0, {second.number, 0, true, " and twice"});
  EXPECT_EQ(requests.take(second.number, kBegin)->by_rank.at(0), "well");
}

TEST(RankRequests, AllAnswersTogetherHaveABound) {
  constexpr int kRanks = 70;
  std::map<int, int> hosts;
  for (int rank = 0; rank < kRanks; ++rank) hosts[rank] = 0;
  RankRequests requests;
  const agents::Request request = requests.begin(RequestKind::stacks, "", hosts, kBegin);
  const std::string longest(RankRequests::kMostBytes, 'x');
  for (int rank = 0; rank < kRanks; ++rank) requests.hear(0, {request.number, rank, true, longest});
  const std::optional<RankReplies> replies = requests.take(request.number, kBegin);
  ASSERT_TRUE(replies);
  EXPECT_EQ(replies->by_rank.size(), RankRequests::kMostOfRequest / RankRequests::kMostBytes);
  EXPECT_EQ(replies->by_rank.size() + replies->silent.size(), static_cast<std::size_t>(kRanks));
}

TEST(RankRequests, AnEndlessAnswerTakesNoMemory) {
  RankRequests requests;
  const agents::Request request = requests.begin(RequestKind::stacks, "", {{0, 0}}, kBegin);
  const std::string part(1 << 20, 'x');
  for (int i = 0; i < 100; ++i) requests.hear(0, {request.number, 0, false, part});
  const std::optional<RankReplies> replies = requests.take(request.number, kBegin);
  ASSERT_TRUE(replies);
  EXPECT_TRUE(replies->by_rank.empty());
  EXPECT_EQ(replies->silent, std::set<int>{0});
}

}  // namespace
}  // namespace rueda
