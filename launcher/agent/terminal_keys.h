// SPDX-License-Identifier: Apache-2.0
// The keys that a terminal makes signals of, where rank 0 has a terminal of its own.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/system/pseudo_terminal.h"

namespace rueda {

// Purpose: decides whom Ctrl-C, Ctrl-\ and Ctrl-Z are for; pure, modes and time come in. They are for the
// whole job, as they are without this terminal, with these exceptions. Keys of a program that edits lines
// itself (readline, an editor) are its own, and so are those of a shell that runs another program. Ctrl-C
// interrupts rank 0 first: if rank 0 then edits lines (pdb, a Python shell shows its prompt), that was all.
// If it does not within kPromptTime, the key is for the job. Owned by the agent's thread.
class TerminalKeys {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kPromptTime{500};

  struct Sorted {
    std::string text;                 // for the terminal of rank 0
    std::vector<int> signals_of_job;  // in their order
    bool interrupts_rank_0 = false;   // it gets SIGINT now
  };
  // `in_foreground`: the terminal is rank 0's, not that of a program which rank 0 runs.
  Sorted sort(std::string_view typed, const TerminalModes& modes, bool in_foreground, Time now);

  // True once: Ctrl-C has turned out to be for the job.
  bool interrupts_job(Time now, const TerminalModes& modes);
  std::optional<Time> next_time() const { return interrupt_until_; }  // interrupts_job() is due then
  // True where rank 0 has ended because of Ctrl-C: so will the job.
  bool on_end_of_rank_0();
  // True once: rank 0 has had the SIGINT that the job gets now.
  bool rank_0_has_it();

 private:
  std::optional<Time> interrupt_until_;
  bool rank_0_has_it_ = false;
};

}  // namespace rueda
