// SPDX-License-Identifier: Apache-2.0
// Children that were forked from a process with a Runtime: they have its memory, and none of its threads.
#pragma once

#include "rueda/status.h"

namespace rueda {

// Whether this process is such a child. Any thread.
bool is_forked_child();
// Has each child that is forked from now on know it.
void watch_for_forks();
// How many forks lie between the first call of this function and the process: an equal number, the same
// process.
int forks_since_first_call();
// Returns the error that a forked child gets when it calls Rueda.
Status status_in_forked_child();

}  // namespace rueda
