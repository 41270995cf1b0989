// SPDX-License-Identifier: Apache-2.0
// The agent's side of its line to a rank (the rank's: ops/bootstrap/address/agent_line).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/protocol/agent_message.h"
#include "launcher/stacks/python_stacks.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: a pair of sockets; the rank inherits one end. The number and identity of that end stand in the
// rank's environment under RUEDA_AGENT_LINE. Every message is one packet of text:
//   to the agent    "join" (this process calls init()), "mpi" (it has begun MPI), "put KEY VALUE", "get KEY";
//                   of an elastic job (agents::WorkerState): "fresh", "ready GENERATION", "formed
//                   GENERATION", "state"; with a descriptor of the process's memory: "training", its
//                   TrainingPage; "requests", its TimelineRequestPage; "stacks SIGNAL NUMBER", the file of a
//                   PythonStacks; "recorder OFFSET IDENTITY", a RecorderPage (RankRecordings); "stalled":
//                   ranks wait for others in vain
//   to the rank     "lost RANK WORDS", "value KEY VALUE"; of an elastic job: "generation NUMBER WORKERS.",
//                   "joiners 0" or "joiners 1"
// The rank may be any program: all it says is checked, and nothing here waits for it. Owned by the agent's
// thread.
class RankChannel {
 public:
  struct Request {
    enum class Kind { put, get, state, training, timelines, recorder, stalled };
    Kind kind = Kind::get;
    std::string key{};
    std::string value{};
    agents::WorkerState state{};  // its worker is not known here
    Descriptor file{};            // of memory; may be any file
    std::uint64_t offset = 0;     // there, of a RecorderPage; `value` says whose it is
  };

  RankChannel();  // throws std::system_error

  int descriptor() const { return ours_.number(); }
  int ranks_end() const { return theirs_.number(); }
  void close_the_ranks_end() { theirs_.close(); }

  std::vector<Request> hear();
  void tell_lost(int rank, const std::string& words);
  void tell_value(const std::string& key, const std::string& value);
  void tell_generation(const Generation& generation);
  void tell_change(const agents::ChangeDue& due);
  void tell_to_retire();

  // The process that has joined the job; 0 before, and after its end.
  pid_t member() const;
  void forget_member() { member_handle_.close(); }  // it has ended
  // False where there is none.
  bool signal_member(int signal) const;
  bool uses_mpi() const { return uses_mpi_; }
  // The process whose stacks tell where the rank is: the member, else the last one that has begun Python. 0:
  // there is none.
  pid_t main_process() const;
  // Of a process that runs Python and has told of it; else null.
  std::shared_ptr<PythonStacks> python_of(pid_t process) const;

 private:
  void tell(std::string packet);
  void take_python(pid_t process, std::string_view words, Descriptor file);

  Descriptor ours_;
  Descriptor theirs_;
  pid_t member_ = 0;
  Descriptor member_handle_;  // a pidfd: names the process, whoever has its number later
  std::vector<std::shared_ptr<PythonStacks>> pythons_;  // the last ones
  bool uses_mpi_ = false;
  bool retires_ = false;
};

}  // namespace rueda
