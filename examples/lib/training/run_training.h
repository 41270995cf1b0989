// SPDX-License-Identifier: Apache-2.0
// A whole run of a trainer, from the meeting of the ranks to the results.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>

#include "examples/lib/training/options.h"
#include "examples/lib/training/task.h"

namespace rueda::examples {

// The job ends, and why has been told.
class AlreadyTold : public std::runtime_error {
 public:
  AlreadyTold() : std::runtime_error("why the job ends has been told") {}
};

// What `make` makes on each rank, from files that all read. Where it fails the ranks meet, one of those with
// the same trouble tells it on standard error, and all throw AlreadyTold; UsageError is thrown as it is.
// Where it succeeds run_training() must follow, in which the others are met. Main thread.
std::unique_ptr<Task> make_on_all_ranks(const std::function<std::unique_ptr<Task>()>& make);

// Calls rueda::init(), agrees on the settings, resumes where that is asked for, trains with evaluations and
// checkpoints, evaluates, and writes model, summary and losses; then rueda::shutdown(). Returns false if
// SIGTERM ended it early. Throws what fails. Main thread.
bool run_training(Task& task, const TrainOptions& options);

}  // namespace rueda::examples
