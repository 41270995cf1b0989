// SPDX-License-Identifier: Apache-2.0
// Signals as something to read, and what a process inherits of them.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <thread>

#include "launcher/system/descriptor.h"

namespace rueda {

// The signal state that a program inherits at exec: bit S - 1 of each word stands for signal S.
struct SignalState {
  std::uint64_t ignored = 0;
  std::uint64_t blocked = 0;
  bool operator==(const SignalState&) const = default;

  bool ignores(int signal) const { return (ignored >> (signal - 1) & 1) != 0; }
};

SignalState signal_state();                    // of this process
void set_signal_state(const SignalState& to);  // all other signals get their default meaning

// None is received any more but those that cannot be blocked. Children can be waited for.
void block_all_signals();

// From now on these signals wait to be read, whatever this process has inherited. A broken pipe is an error
// of write.
Descriptor catch_signals(std::initializer_list<int> signals);

// The same for ruedarun: a signal that was ignored at its start stays so, as nohup and shells expect.
Descriptor catch_signals_of_job(const SignalState& inherited);

// A thread that gets no signal: they are for the loop. Throws std::system_error.
std::thread thread_without_signals(std::function<void()> body);

// 0 when none has come.
int next_signal(const Descriptor& signals);

// Stops this process as Ctrl-Z would; returns when it continues. Does nothing where nobody could continue it.
void stop_until_continued();

}  // namespace rueda
