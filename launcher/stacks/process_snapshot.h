// SPDX-License-Identifier: Apache-2.0
// The threads of a process with copies of their stacks.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "launcher/stacks/stopped_thread.h"
#include "launcher/stacks/thread_facts.h"

namespace rueda {

// Purpose: all that is needed to find the functions of each thread while the process runs on. A plain value.
struct ProcessSnapshot {
  struct Thread {
    ThreadFacts facts;
    bool is_read = false;  // the rest
    Registers registers{};
    StackCopy stack;
  };

  pid_t process = 0;
  std::string mappings;              // the text of /proc/PID/maps
  std::vector<Thread> threads;       // the main thread first
  std::vector<std::string> notes{};  // why something is missing
};

// Stops one thread after the other, each for the time of a copy. Threads beyond 512 are left out. Takes half
// a second at most, also where threads cannot be stopped. `with_stacks`: else nothing is stopped. `at_stop`
// is called while the main thread stands still, by another thread; not at all if it cannot be stopped.
ProcessSnapshot snapshot_of(
    pid_t process, bool with_stacks, const std::function<void()>& at_stop = [] {});

}  // namespace rueda
