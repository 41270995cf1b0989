// SPDX-License-Identifier: Apache-2.0
// What ruedarun knows of the ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/protocol/agent_message.h"

namespace rueda {

// Of a process that has ended, from what wait() says: the exit status a shell would show, and words.
int exit_code(int status);
std::string how_it_ended(int status);  // "was killed by signal 9 (Killed)"

// Purpose: which ranks run and how the others have ended, from what the agents report. Pure. Owner: the main
// thread of the supervisor.
class JobRecord {
 public:
  explicit JobRecord(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  void note_start(int rank, agents::Started started);
  // True when that is a failure: nobody asked the rank to end, and it has not ended well.
  bool note_end(int rank, const agents::Ended& ended);
  // The agent has gone. True when that is a failure: it had not reported the end of its rank.
  bool note_gone(int rank);

  bool has_started(int rank) const { return ranks_[static_cast<std::size_t>(rank)].started.has_value(); }
  bool all_started() const { return started_ == ranks_.size(); }
  bool all_ended() const { return ended_ == ranks_.size(); }
  bool none_runs() const { return ended_ == started_; }
  std::string missing() const;            // "rank 3", "ranks 1, 2, 5 and 7 more": those that have not started
  std::string words_for(int rank) const;  // "rank 2 (process 17 on node3) was killed by signal 9 (Killed)"
  int exit_code_of(int rank) const;       // never 0
  bool was_killed(int rank) const;        // from outside, or since something of Hydra's was

 private:
  struct Rank {
    std::optional<agents::Started> started;
    std::optional<agents::Ended> ended;
    bool gone = false;
  };

  std::vector<Rank> ranks_;
  std::size_t started_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace rueda
