// SPDX-License-Identifier: Apache-2.0
// The ranks of a job, as ruedarun knows them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/job/placement.h"
#include "launcher/protocol/agent_message.h"

namespace rueda {

// Purpose: which ranks run and how the others have ended, from the news of the agents. Pure. Owned by the
// main thread of the supervisor.
class JobRecord {
 public:
  explicit JobRecord(const std::vector<HostRanks>& hosts);

  // A host more, without ranks. Its number is the next one.
  int add_host();
  void note_ready(int host, const agents::Ready& ready);
  bool is_ready(int host) const { return hosts_[static_cast<std::size_t>(host)].ready.has_value(); }
  // The agent of a host was told to start its ranks, which count as running from then on.
  void note_launch(int host);
  // The agent of a host was told to start one more. Its number is the next one.
  int add_rank(int host);
  void note_start(const agents::Started& started);
  // Those ranks of a host that have not started never will.
  void note_no_start(int host);
  // True when that is a failure: nobody asked the rank to end, and it has not ended well.
  bool note_end(const agents::Ended& ended);
  // The agent of a host has gone. The ranks there that ran, which are failures.
  std::vector<int> note_gone(int host);
  // It has ended before it could start.
  void note_cannot_start(int rank);
  bool all_started_on(int host) const;

  bool is_rank(int rank) const { return rank >= 0 && static_cast<std::size_t>(rank) < ranks_.size(); }
  int ranks() const { return static_cast<int>(ranks_.size()); }  // that were started, also later
  // -1: nothing is on its way there. Of a host that cannot start one.
  int unstarted_on(int host) const;
  bool has_ended(int rank) const { return ranks_[static_cast<std::size_t>(rank)].ended.has_value(); }
  int host_of(int rank) const { return ranks_[static_cast<std::size_t>(rank)].host; }
  bool has_ranks(int host) const { return !hosts_[static_cast<std::size_t>(host)].ranks.empty(); }
  bool is_on(int rank, int host) const { return ranks_[static_cast<std::size_t>(rank)].host == host; }
  bool all_started() const { return started_ == ranks_.size(); }
  bool all_ended() const { return ended_ == ranks_.size(); }
  bool none_runs() const { return running_ == 0; }
  std::string missing() const;           // "rank 3", "ranks 1, 2, 5 and 7 more": those that have not started
  std::string ranks_on(int host) const;  // the same for those of a host
  // "rank 2 (process 17 on node3) was killed by signal 9 (Killed)"; `name` in place of "rank 2 (".
  std::string words_for(int rank, const std::string& name = "") const;
  std::string process_of(int rank) const;  // "process 17 on node3"
  // The error of an operation of the rank, shortly before its end; empty: none has failed.
  std::string failure_of(int rank) const;
  // It has ended, and is not known to have heard of a failed operation or a lost rank before.
  bool failed_by_itself(int rank) const;
  int exit_code_of(int rank) const;  // never 0
  bool was_killed(int rank) const;   // from outside

 private:
  struct Host {
    std::optional<agents::Ready> ready;
    std::vector<int> ranks;
  };
  struct Rank {
    int host = 0;
    bool running = false;
    std::optional<agents::Started> started;
    std::optional<agents::Ended> ended;
    bool lost_with_agent = false;
  };

  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
  std::size_t started_ = 0;
  std::size_t running_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace rueda
