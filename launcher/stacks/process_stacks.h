// SPDX-License-Identifier: Apache-2.0
// The stacks of all threads of a process.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/observe/training/training_page.h"
#include "launcher/stacks/python_stacks.h"

namespace rueda {

inline constexpr std::size_t kMostStacksBytes = 1 << 20;

// Reads what the process does just now, where it tells that. Any thread may call it.
using MomentReader = std::function<std::optional<TrainingMoment>()>;

// JSON: {"process", "phase", "step", "notes": […], "threads": [{"id", "name", "state", "waits", "frames":
// […], "python": […]}]}. "phase", a number of Phase, and "step" are of the moment of the main thread's stack;
// they are left out where that is not known. "notes" say why something is missing. "frames" are native
// functions, "python" those of Python, the innermost first; each is there only if it is known. The main
// thread comes first. The process stands still for a moment only, thread by thread. Takes up to 2 s, so it is
// no work for a loop. `python`: may be null.
std::string stacks_of(pid_t process, const std::shared_ptr<PythonStacks>& python, const MomentReader& moment);

}  // namespace rueda
