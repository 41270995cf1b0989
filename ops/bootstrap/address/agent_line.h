// SPDX-License-Identifier: Apache-2.0
// The rank's side of its line to the agent of ruedarun on this host (the agent's:
// launcher/agent/rank_channel).
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/system/descriptor.h"
#include "ops/bootstrap/address/key_value_store.h"
#include "rueda/types.h"

namespace rueda {

// A rank that has failed, as the agent tells of it.
struct LostPeer {
  Rank rank = 0;
  std::string words;  // "rank 2 (process 17 on node3) was killed by signal 9 (Killed)"
};

// Purpose: a socket that this process has inherited; RUEDA_AGENT_LINE in the environment says which. Without
// an agent it does nothing. Any thread may call it; no call waits but get().
class AgentLine {
 public:
  static AgentLine& of_this_process();

  AgentLine();  // children of this process do not get the line
  AgentLine(const AgentLine&) = delete;
  AgentLine& operator=(const AgentLine&) = delete;

  explicit operator bool() const { return static_cast<bool>(socket_); }

  // This process calls init(): signals for the rank are for it.
  void tell_joined() { tell("join"); }
  // It has begun MPI, which hears of failed ranks by SIGUSR1.
  void tell_mpi() { tell("mpi"); }

  // Shows a value to all ranks; an empty one takes the key away.
  void put(const std::string& key, const std::string& value);
  // The value of a key that any rank has put; nothing when none comes within that time.
  std::optional<std::string> get(const std::string& key, int milliseconds);

  // Ranks that the agent has named; `seen`: how many of them the caller knows, which is counted up.
  std::vector<LostPeer> lost(std::size_t& seen);
  // The end of a rank in words, "was killed by signal 9 (Killed)"; empty when the agent has not told it yet.
  std::string how_it_ended(Rank rank);

 private:
  void tell(std::string_view packet);
  void hear();  // with the lock

  std::mutex mutex_;
  Descriptor socket_;
  std::vector<LostPeer> lost_;
  std::map<std::string, std::string> values_;  // those that were asked for
};

// The values of all ranks of a job that ruedarun has started.
class AgentStore final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  void remove(const std::string& key) override;
  std::string in_words() const override { return "ruedarun"; }
};

// "lost RANK WORDS"; false when `packet` is something else.
bool read_lost(std::string_view packet, LostPeer& lost);

}  // namespace rueda
