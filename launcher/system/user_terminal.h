// SPDX-License-Identifier: Apache-2.0
// The terminal at which the user sits.
#pragma once

#include "launcher/system/pseudo_terminal.h"

namespace rueda {

// True where `descriptor` is a terminal, and this process is in its foreground. In the background a read from
// it, or a change of its modes, would stop this process.
bool is_terminal_of_ours(int descriptor);

// The size of the terminal; 24 x 80 where none is known.
TerminalSize terminal_size(int descriptor);

// Purpose: raw mode of the terminal at standard input: every key comes as a byte, without an echo, and
// output is shown as it is. Ctrl-S still stops the output, and nothing else. The modes from before come back
// at leave(), at the end of this object, and when a signal kills this process that nobody catches, but for
// SIGKILL. One object in a process. Owned by the main thread.
class RawMode {
 public:
  RawMode() = default;
  ~RawMode() { leave(); }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

  // Also where somebody else has changed the modes meanwhile. False in the background, or without a terminal.
  bool enter();
  // In the background the terminal is another's, and stays as it is.
  void leave();
  bool is_on() const;
};

}  // namespace rueda
