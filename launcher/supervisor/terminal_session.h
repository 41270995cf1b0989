// SPDX-License-Identifier: Apache-2.0
// The user's terminal, while rank 0 has a terminal of its own.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string_view>

#include "launcher/cli/options.h"
#include "launcher/system/user_terminal.h"

namespace rueda {

// Purpose: decides whether rank 0 gets a terminal. Sets the user's terminal to raw mode while rank 0 runs and
// ruedarun is in the foreground: keys then get their meaning from rank 0's terminal. Raw mode outlives
// rank 0 until its output is shown. Nothing blocks. Owned by the main thread of the supervisor; its end
// restores the user's terminal.
class TerminalSession {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Act { nothing, resumed, left };

  explicit TerminalSession(const LaunchOptions& options);

  bool is_wanted() const { return wanted_; }
  // The size of rank 0's terminal. Nothing if rank 0 gets none.
  std::optional<TerminalSize> size() const;

  void on_start();           // of rank 0
  void on_output(Time now);  // of rank 0
  void on_end(Time now);     // of rank 0
  void pause() { raw_.leave(); }
  // True when the terminal is raw again, and may have another size. Call it after SIGCONT.
  bool resume();
  void leave();
  void do_without();  // rank 0 has got no terminal
  bool is_raw() const { return raw_.is_on(); }

  // Due at next_time(): no signal tells that the shell has given the foreground back.
  Act next_act(Time now, bool all_is_shown);
  std::optional<Time> next_time(Time now) const;

  // Ctrl-C three times within a second ends the job, whatever rank 0 makes of its keys. If the job is ending,
  // or rank 0 has ended, once is enough.
  bool demands_end(std::string_view typed, bool is_ending, Time now);

 private:
  enum class State { waiting, running, leaving, over };

  bool wanted_;
  bool has_keys_;  // the user has a terminal at standard input
  State state_ = State::waiting;
  RawMode raw_;
  Time leave_at_{};  // in State::leaving
  Time leave_by_{};
  std::deque<Time> interrupts_;  // the last ones
};

}  // namespace rueda
