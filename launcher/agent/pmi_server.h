// SPDX-License-Identifier: Apache-2.0
// PMI-1, as a process manager answers it: so that MPI programs start under ruedarun.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rueda {

// Values that ranks of all hosts share, by key.
using SharedValues = std::map<std::string, std::string, std::less<>>;

// Purpose: answers the lines that the ranks of one host send on their PMI sockets. Pure: lines come in,
// answers go out. MPICH, Intel MPI and Rueda's ops/bootstrap/address/pmi_connection are on the other side.
// The server checks each line: nonsense gets an error as its answer. Owned by the agent's thread.
class PmiServer {
 public:
  // The server needs these from the rest of the agent.
  struct Job {
    int size = 1;  // ranks
    int ranks_here = 1;
    std::string name;                                             // tells jobs apart, without spaces
    std::string process_mapping;                                  // see job/placement.h
    std::function<void(std::string key, std::string value)> put;  // shows a value to all hosts
    std::function<void()> enter_barrier;                          // all ranks of this host are there
  };
  struct Answer {
    int local_rank = 0;
    std::string line;  // with its end
  };
  static constexpr std::size_t kLongestLine = 4096;

  explicit PmiServer(Job job);

  // A line of one rank, without its end; `values`: those that are known here.
  std::vector<Answer> hear(int local_rank, std::string_view line, const SharedValues& values);
  // All hosts have entered the barrier.
  std::vector<Answer> leave_barrier();
  // A rank that ends between the two leaves others waiting.
  bool is_between_init_and_finalize(int local_rank) const {
    return in_mpi_[static_cast<std::size_t>(local_rank)];
  }
  // The exit status that a rank has given to MPI_Abort, never 0. It expects to be killed.
  std::optional<int> aborted(int local_rank) const { return aborted_[static_cast<std::size_t>(local_rank)]; }
  // MPICH asks for it by the key PMI_dead_processes.
  void note_dead(int rank);

 private:
  std::string answer_to_get(std::string_view key, const SharedValues& values) const;
  void put(std::string_view key, std::string_view value);
  void enter(int local_rank);

  Job job_;
  std::vector<bool> in_barrier_;  // by local rank
  int waiting_ = 0;
  std::vector<bool> in_mpi_;  // by local rank: MPI has begun and has not ended
  std::vector<std::optional<int>> aborted_;
  std::vector<bool> spawning_;  // ranks that are in the middle of a command of several lines
  std::string dead_;            // "2,5"
};

}  // namespace rueda
