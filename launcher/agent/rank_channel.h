// SPDX-License-Identifier: Apache-2.0
// The side of an agent of the line to its rank (the rank's: ops/mpi/agent_line).
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: a pair of sockets; the rank inherits one end, whose number and identity stand in its environment
// under RUEDA_AGENT_LINE. Once MPI has begun, the rank says which shared memory files it has mapped ("mpi",
// then a line for each), and hears of failed ranks ("lost RANK WORDS"). Every message is one packet. The rank
// may be any program: what it says is checked, and nothing here waits for it. Owner: the main thread of the
// agent.
class RankChannel {
 public:
  RankChannel();  // also sets the environment

  int descriptor() const { return ours_.number(); }
  void close_the_ranks_end() { theirs_.close(); }

  void hear();
  void tell_lost(int rank, const std::string& words);

  pid_t mpi_process() const { return mpi_process_; }  // 0 until MPI has begun
  const std::set<std::string>& files() const { return files_; }

 private:
  Descriptor ours_;
  Descriptor theirs_;
  pid_t mpi_process_ = 0;
  std::set<std::string> files_;
};

}  // namespace rueda
