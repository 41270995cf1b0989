// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/terminal_keys.h"

#include <signal.h>

#include <utility>

namespace rueda {
namespace {

// 0: an ordinary key.
int signal_of(char key, const TerminalModes& modes) {
  if (!modes.makes_signals || key == 0) return 0;
  if (key == modes.suspend) return SIGTSTP;
  if (!modes.takes_lines) return 0;
  return key == modes.interrupt ? SIGINT : key == modes.quit ? SIGQUIT : 0;
}

}  // namespace

TerminalKeys::Sorted TerminalKeys::sort(std::string_view typed, const TerminalModes& modes,
                                        bool in_foreground, Time now) {
  Sorted sorted;
  for (const char key : typed) {
    const int signal = in_foreground ? signal_of(key, modes) : 0;
    if (signal == 0) {
      sorted.text += key;
    } else if (signal == SIGINT && !interrupt_until_ && !rank_0_has_it_) {
      interrupt_until_ = now + kPromptTime;
      rank_0_has_it_ = true;
      sorted.interrupts_rank_0 = true;
    } else {
      if (signal == SIGINT) interrupt_until_.reset();
      sorted.signals_of_job.push_back(signal);
    }
  }
  return sorted;
}

bool TerminalKeys::interrupts_job(Time now, const TerminalModes& modes) {
  if (!interrupt_until_) return false;
  if (!modes.takes_lines) {
    interrupt_until_.reset();
    rank_0_has_it_ = false;
    return false;
  }
  if (now < *interrupt_until_) return false;
  interrupt_until_.reset();
  return true;
}

bool TerminalKeys::on_end_of_rank_0() { return std::exchange(interrupt_until_, std::nullopt).has_value(); }

bool TerminalKeys::rank_0_has_it() { return std::exchange(rank_0_has_it_, false); }

}  // namespace rueda
