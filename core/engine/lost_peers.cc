// SPDX-License-Identifier: Apache-2.0
#include "core/engine/lost_peers.h"

#include <chrono>
#include <thread>

#include "core/base/log.h"

namespace rueda {

void LostPeers::add(std::span<const Rank> ranks) {
  for (const Rank rank : ranks) {
    if (known_.contains(rank)) continue;
    known_.add(RankSet::of(rank));
    unreported_.push_back(rank);
  }
}

void LostPeers::look(Time now) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
  if (!components_.newly_failed) return;
  if (components_.has_news ? !components_.has_news() : now - looked_ < kBetweenLooks) return;
  looked_ = now;
  add(components_.newly_failed());
}

std::string LostPeers::told_end_of(Rank rank) const {
  std::string words = components_.how_it_ended ? components_.how_it_ended(rank) : "";
  if (words.empty() && components_.silence) words = components_.silence(rank);
  return words;
}

// The launcher may need a moment longer than this rank to hear of the end. A job that goes on does not wait,
// and the job ends with the words about the first.
std::string LostPeers::end_of(Rank rank, const std::string& process, std::atomic<std::uint64_t>& heartbeat) {
  constexpr int kLooks = 40;
  const bool is_first = ended_.empty();
  ended_.add(RankSet::of(rank));
  if (const std::string words = components_.last_words ? components_.last_words(rank) : ""; !words.empty())
    log(components_.elastic ? LogLevel::info : LogLevel::error, "rank {} ({}) was lost; what it did last:{}",
        rank, process, words);
  std::string words = told_end_of(rank);
  const bool may_be_told = is_first && components_.how_it_ended && !components_.elastic;
  for (int look = 1; words.empty() && may_be_told && look < kLooks; ++look) {
    heartbeat.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    words = told_end_of(rank);
  }
  return words.empty() ? "ended without shutdown()" : words;
}

}  // namespace rueda
