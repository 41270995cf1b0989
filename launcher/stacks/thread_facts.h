// SPDX-License-Identifier: Apache-2.0
// The threads of a process, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rueda {

// Purpose: one thread while it runs. A plain value.
struct ThreadFacts {
  pid_t id = 0;
  std::string name;
  char state = '?';  // a letter of /proc: R runs, S sleeps, D waits in the kernel, T is stopped, Z has ended
  std::string waits{};  // the function of the kernel in which it waits; empty: none, or not readable
};

// The first one has the number of the process. Empty where there is no such process.
std::vector<pid_t> threads_of(pid_t process);
// Nothing where it has ended and is forgotten.
std::optional<ThreadFacts> facts_of_thread(pid_t process, pid_t thread);

// Signals of a thread, as bits; signal 1 is the lowest.
struct SignalSets {
  std::uint64_t pending = 0;  // for this thread alone
  std::uint64_t blocked = 0;
  std::uint64_t caught = 0;  // by a handler of its process
};
std::optional<SignalSets> signals_of_thread(pid_t process, pid_t thread);

// In words, with the remedy: the kernel does not let this process trace that one.
std::string why_not_traced(pid_t process);

}  // namespace rueda
