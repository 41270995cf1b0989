// SPDX-License-Identifier: Apache-2.0
// One rank, as the agent of its host sees it.
#pragma once

#include <sys/types.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/base/system/robust_futex.h"
#include "launcher/agent/rank_channel.h"
#include "launcher/protocol/agent_message.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/pseudo_terminal.h"

namespace rueda {

// Purpose: the process of a rank with its pipes and sockets, from fork to the end of its output. Owned by the
// agent's thread.
class LocalRank {
 public:
  static constexpr std::size_t kStreams = 2;

  // `input`: to be the rank's standard input; `cores`: those it may use, all where empty.
  struct Start {
    const agents::Launch& launch;
    Descriptor input;
    std::vector<int> cores;
    std::uint64_t open_files = 0;  // the limit as ruedarun has inherited it
    // In place of `input` and of the pipes for output, where there is one.
    std::shared_ptr<PseudoTerminal> terminal{};
  };
  // Forks. The rank has a process group of its own, on a terminal also a session, and dies with the agent.
  // Throws std::system_error when a pipe or a process cannot be made.
  LocalRank(const SlotInfo& slot, Start start);
  LocalRank(LocalRank&&) = default;

  const SlotInfo& slot() const { return slot_; }
  pid_t process() const { return process_; }  // 0: has ended
  RankChannel& channel() { return channel_; }
  // Of a worker of an elastic job: tells of its end before its memory is freed. Else null.
  RobustFutex* futex() const { return futex_ ? futex_->get() : nullptr; }
  // -1: the rank has no such stream, or it has ended. A terminal is stream 0.
  int output(std::size_t stream) const;
  int pmi() const { return pmi_.number(); }

  // For all processes of the rank's group; SIGTERM also wakes those that are stopped.
  void signal_all(int signal);
  // For the process that has joined the job where one has, else as signal_all(): a program saves its state
  // while its helpers live.
  void signal_main(int signal);
  // SIGUSR1 makes MPICH ask who has failed.
  void notify_of_failure();
  void ask_to_end() { asked_ = true; }
  bool asked() const { return asked_; }
  // ruedarun has been told of its end, which may be before waitpid() tells.
  void note_told_end() { end_is_told_ = true; }
  bool end_is_told() const { return end_is_told_; }
  // Kills all processes of the rank's process group, such as helpers that the rank has left.
  void end_group() const;
  void note_end();

  // Some bytes that the rank has written; empty when there are none now. At the end the pipe is closed.
  std::string read_output(std::size_t stream);
  bool output_is_over() const { return output(0) < 0 && output(1) < 0; }
  // Its process group reads the keys of its terminal.
  bool has_the_keys() const { return terminal_ && process_ != 0 && terminal_->is_in_foreground(process_); }
  // Whole lines that have come on the PMI socket. Nonsense closes it.
  std::vector<std::string> read_pmi();
  void answer_pmi(const std::string& line);

 private:
  SlotInfo slot_;
  pid_t process_ = 0;
  RankChannel channel_;
  std::unique_ptr<SharedRobustFutex> futex_;
  std::array<Descriptor, kStreams> outputs_;
  std::shared_ptr<PseudoTerminal> terminal_;
  Descriptor pmi_;
  std::string pmi_heard_;
  bool asked_ = false;
  bool end_is_told_ = false;
};

// The cores of each of `ranks` ranks on this host: equal shares, in order, where the ranks divide the cores
// that this process may use evenly; with Binding::socket all cores of the socket that holds its share.
// Otherwise empty lists.
std::vector<std::vector<int>> cores_of_ranks(agents::Binding binding, int ranks);

}  // namespace rueda
