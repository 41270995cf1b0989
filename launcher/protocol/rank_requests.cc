// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/rank_requests.h"

#include <algorithm>
#include <utility>

namespace rueda {

agents::Request RankRequests::begin(agents::RequestKind kind, std::string text,
                                    const std::map<int, int>& ranks, Time now) {
  std::map<int, int> of_host;
  for (const auto& [rank, host] : ranks) ++of_host[host];
  int most = 0;
  for (const auto& [host, count] : of_host) most = std::max(most, count);
  const auto longest = std::min<std::chrono::milliseconds>(kLongest + most * kForRank, kLongestOfAll);
  pending_[++last_] = {.until = now + longest, .waits = ranks, .replies = {}};
  return {last_, kind, std::move(text)};
}

void RankRequests::hear(int host, agents::AnswerPart part) {
  const auto found = pending_.find(part.number);
  if (found == pending_.end()) return;
  Pending& pending = found->second;
  const auto waits = pending.waits.find(part.rank);
  if (waits == pending.waits.end() || waits->second != host) return;
  std::string& bytes = pending.replies.by_rank[part.rank];
  const bool is_too_long =
      bytes.size() + part.bytes.size() > kMostBytes || pending.bytes + part.bytes.size() > kMostOfRequest;
  if (is_too_long) {
    pending.bytes -= bytes.size();
    pending.replies.by_rank.erase(part.rank);
    pending.replies.silent.insert(part.rank);
  } else {
    bytes += part.bytes;
    pending.bytes += part.bytes.size();
  }
  if (part.is_last || is_too_long) pending.waits.erase(waits);
}

std::optional<RankReplies> RankRequests::take(std::uint32_t number, Time now) {
  const auto found = pending_.find(number);
  if (found == pending_.end()) return std::nullopt;
  Pending& pending = found->second;
  if (!pending.waits.empty() && now < pending.until) return std::nullopt;
  for (const auto& [rank, host] : pending.waits) {
    pending.replies.silent.insert(rank);
    pending.replies.by_rank.erase(rank);
  }
  RankReplies replies = std::move(pending.replies);
  pending_.erase(found);
  return replies;
}

std::optional<RankRequests::Time> RankRequests::next_time() const {
  std::optional<Time> next;
  for (const auto& [number, pending] : pending_) next = std::min(next.value_or(pending.until), pending.until);
  return next;
}

}  // namespace rueda
