// SPDX-License-Identifier: Apache-2.0
// The rank's side of the line to the agent that ruedarun puts beside it (the agent's: launcher/rank_line).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rueda/types.h"

namespace rueda {

// What the agent says of a rank that has failed.
struct LostPeer {
  Rank rank = 0;
  std::string words;  // "rank 2 (process 17 on node3) was killed by signal 9 (Killed)"
};

// Purpose: a socket that this process has inherited; RUEDA_AGENT_LINE in the environment says which. Without
// an agent it does nothing. Made by the thread that begins MPI; then of the background thread. Never blocks.
class AgentLine {
 public:
  AgentLine();  // children of this process do not get the line
  ~AgentLine();
  AgentLine(const AgentLine&) = delete;
  AgentLine& operator=(const AgentLine&) = delete;

  explicit operator bool() const { return socket_ >= 0; }

  // Once MPI has begun: which files in /dev/shm it has mapped, to be removed if nobody of the job can.
  void tell_shared_memory() const;

  // Those the agent has named since the last call.
  std::vector<LostPeer> lost();
  // What the agent has said of a rank; empty when it has not said anything yet.
  std::string words_of(Rank rank);

 private:
  void hear();

  int socket_ = -1;
  std::vector<LostPeer> heard_;
  std::size_t told_ = 0;  // of heard_, by lost()
};

// "lost RANK WORDS"; false when `packet` is something else.
bool read_lost(std::string_view packet, LostPeer& lost);

}  // namespace rueda
