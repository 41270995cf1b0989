// SPDX-License-Identifier: Apache-2.0
// Requests to the ranks of a job, and their answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/protocol/request.h"

namespace rueda {

// What ranks have answered. A plain value.
struct RankReplies {
  std::map<int, std::string> by_rank;
  std::set<int> silent;  // ranks without an answer, or with a broken one
};

// Purpose: collects the answers of ranks, within bounds of time and memory. An agent may send anything. Pure;
// time is passed in. Owned by the main thread of the supervisor.
class RankRequests {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // One rank of a host answers after the other.
  static constexpr std::chrono::seconds kLongest{10}, kLongestOfAll{60};
  static constexpr std::chrono::milliseconds kForRank{500};
  static constexpr std::size_t kMostBytes = 4 << 20;        // of a rank's answer
  static constexpr std::size_t kMostOfRequest = 256 << 20;  // of all ranks: the rest counts as silent

  // Requests are numbered from `first` + 1 on: two of this class in one job need different numbers.
  explicit RankRequests(std::uint32_t first = 0) : last_(first) {}

  // A request to `ranks`, with their hosts. The message is for the agents of these.
  agents::Request begin(agents::RequestKind kind, std::string text, const std::map<int, int>& ranks,
                        Time now);
  // From that host.
  void hear(int host, agents::AnswerPart part);

  // The replies to that request, once all ranks have answered or its time is over; then it is forgotten.
  std::optional<RankReplies> take(std::uint32_t number, Time now);
  // The time of the first request that is over.
  std::optional<Time> next_time() const;

 private:
  struct Pending {
    Time until{};
    std::map<int, int> waits;  // ranks that have not answered wholly, with their hosts
    RankReplies replies;
    std::size_t bytes = 0;  // of them
  };

  std::map<std::uint32_t, Pending> pending_;
  std::uint32_t last_;
};

}  // namespace rueda
