// SPDX-License-Identifier: Apache-2.0
// Signal handlers of Python, while its main thread waits for other ranks.
#pragma once

namespace rueda::python {

// From now on they run within kCheckEvery (core/base/wait_check.h), and their exceptions leave the function
// that waits. By the thread that runs them anyway, Python's main thread. Once a process, by `rueda._core`.
void run_signal_handlers_while_waiting();

// When the interpreter has ended, this process ends without a wait for other ranks, with the status that it
// would have had.
void end_without_others();

}  // namespace rueda::python
