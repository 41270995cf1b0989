// SPDX-License-Identifier: Apache-2.0
// A terminal that this process makes for a program.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "core/base/system/descriptor.h"

namespace rueda {

struct TerminalSize {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  std::uint16_t width = 0;  // pixels; 0: unknown
  std::uint16_t height = 0;
  bool operator==(const TerminalSize&) const = default;
};

// The meaning that a program has given to keys.
struct TerminalModes {
  bool makes_signals = false;  // of the three keys below
  bool takes_lines = false;    // false while the program edits lines itself: readline, an editor
  char interrupt = 0;          // 0: no key does that
  char quit = 0;
  char suspend = 0;
};

// Purpose: a pseudo terminal: this process has the side of the keyboard and the screen, which never blocks.
// The program has the other side. This object holds that side open, too, so that a program that closes it for
// a while keeps its terminal. Owned by one thread.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(const TerminalSize& size);  // throws std::system_error

  int descriptor() const { return ours_.number(); }
  int programs_end() const { return programs_.number(); }
  // The program has ended: once the last process has closed the terminal, reading ends.
  void close_programs_end() { programs_.close(); }
  void close();

  void resize(const TerminalSize& size) const;  // the program gets SIGWINCH
  TerminalModes modes() const;
  bool is_in_foreground(pid_t group) const;  // also before any program is there
  // The keys that make a reader see the end of its input, behind text that ends with `last`.
  const char* end_of_input(char last) const;

 private:
  Descriptor ours_;
  Descriptor programs_;
};

// In the child that will be the program: begins a session on this terminal, which becomes its three standard
// streams. False, with errno, where that is not possible. The end of that program hangs the terminal up, as
// an ssh connection does: its helpers get SIGHUP, which `nohup` and `setsid` keep from them.
bool move_to_terminal(int programs_end);

}  // namespace rueda
