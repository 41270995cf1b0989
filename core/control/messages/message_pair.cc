// SPDX-License-Identifier: Apache-2.0
#include "core/control/messages/message_pair.h"

namespace rueda {
namespace {

// Ids of pairs have this bit, then the source and the destination.
constexpr ProcessSetId kPair = ProcessSetId{1} << 31;
constexpr int kBits = 15;
static_assert(MessagePair::kMostRanks == 1 << kBits);

}  // namespace

std::optional<MessagePair> MessagePair::of(ProcessSetId id) {
  if ((id & kPair) == 0) return std::nullopt;
  const MessagePair pair{static_cast<Rank>((id & ~kPair) >> kBits), static_cast<Rank>(id & (kMostRanks - 1))};
  return pair.source < kMostRanks && pair.source != pair.destination ? std::optional(pair) : std::nullopt;
}

ProcessSetId MessagePair::id() const {
  return kPair | static_cast<ProcessSetId>(source) << kBits | static_cast<ProcessSetId>(destination);
}

RankSet MessagePair::members() const {
  RankSet members = RankSet::of(source);
  members.add(RankSet::of(destination));
  return members;
}

}  // namespace rueda
