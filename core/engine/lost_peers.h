// SPDX-License-Identifier: Apache-2.0
// Ranks whose processes have ended without shutdown().
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/runtime_components.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: notes which ranks are lost, and explains the end of each. Owned by the ProgressEngine.
class LostPeers {
 public:
  // `components` outlives this.
  explicit LostPeers(const RuntimeComponents& components) : components_(components) {}

  // The transport, or the launcher, has heard of these. The background thread's own thread reports them, each
  // once.
  void add(std::span<const Rank> ranks);
  // Asks the launcher, when it is time.
  void look(Time now);
  bool unreported() const { return !unreported_.empty(); }
  std::vector<Rank> take_unreported() { return std::exchange(unreported_, {}); }

  // The words of the launcher, or else of the connection; empty while neither has any.
  std::string told_end_of(Rank rank) const;
  // From now on nothing is sent to that rank: the call might not return. Logs its last words, and says how
  // its process ended. `process`: as errors name it. Waits for a launcher's words about the first, for 200 ms
  // at most, and counts `heartbeat` meanwhile.
  std::string end_of(Rank rank, const std::string& process, std::atomic<std::uint64_t>& heartbeat);
  bool contains(Rank rank) const { return ended_.contains(rank); }

 private:
  const RuntimeComponents& components_;
  std::vector<Rank> unreported_;
  RankSet known_;  // reported ones, too
  RankSet ended_;
  Time looked_{};
};

}  // namespace rueda
