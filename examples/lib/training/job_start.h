// SPDX-License-Identifier: Apache-2.0
// The beginning of a job of trainers, and its end with one message.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace rueda::examples {

// The job ends, and why has been told.
class AlreadyTold : public std::runtime_error {
 public:
  AlreadyTold() : std::runtime_error("why the job ends has been told") {}
};

// Runs `prepare` on each rank, which reads files that all read. If it fails, the ranks meet, one of those
// with the same trouble tells it on standard error, and all throw AlreadyTold; UsageError is thrown as it is.
// A rank on which it succeeds must call begin_job() next, in which it meets the others. In an elastic job
// each rank tells its own, since it may come alone. Main thread.
void prepare_on_all_ranks(const std::function<void()>& prepare);

// The same for the value that `make` returns.
template <class Make>
auto make_on_all_ranks(const Make& make) {
  std::optional<decltype(make())> made;
  prepare_on_all_ranks([&] { made.emplace(make()); });
  return *std::move(made);
}

// Ends the job for a failure that all ranks know of, each in its own words: one of those with the same words
// tells it on standard error, and all throw AlreadyTold. If the ranks cannot meet, each throws
// std::runtime_error with its own. Collective, main thread.
[[noreturn]] void end_job(const std::string& failure);

// Calls rueda::init(). If some ranks could not prepare, throws AlreadyTold on all. Main thread.
void begin_job();

}  // namespace rueda::examples
