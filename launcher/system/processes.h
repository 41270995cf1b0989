// SPDX-License-Identifier: Apache-2.0
// Starting processes, and making sure that none is left.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rueda {

// Replaces this process by `command`; returns, with errno, only when that fails.
void execute(const std::vector<std::string>& command);

// Forks. Returns 0 in the child, which leads a process group of its own, dies with this process, and has
// these descriptors as its standard streams. Its signals and its limit of open files are as for any program.
// Throws std::system_error.
pid_t fork_program(int input, int output, int errors);

// Returns the text that `command` prints on both streams. Empty when the command cannot be started.
std::string output_of(const std::vector<std::string>& command);

// From now on processes below this one whose parents end become its own children, so that none gets out of
// sight.
void adopt_orphans();

// Every process below this one.
std::vector<pid_t> descendants();

// Ends every process below this one, and waits for that, a second at most. `spared`: but these.
void kill_descendants(const std::set<pid_t>& spared = {});

std::string host_name();

// Whether it can be started: a path, or a name that PATH finds.
bool is_program(const std::string& name);

// True if the process has a handler for the signal, which would kill it otherwise.
bool catches(pid_t process, int signal);

// Of a process that has ended, from the status of wait(): the exit status a shell would show, and words.
int exit_code(int status);
std::string how_it_ended(int status);  // "was killed by signal 9 (Killed)"

// How a child ends, as wait() tells it, while its memory is being freed and until somebody waits for it.
// Nothing while it lives; a good end is known when all is free.
std::optional<int> status_at_exit(pid_t process);

}  // namespace rueda
