// SPDX-License-Identifier: Apache-2.0
// How a training is asked to end before its last step.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rueda::examples {

// The request to a rank, the stronger one last: ranks agree on the maximum.
enum class Stop : std::int32_t {
  none,
  finish,     // as if the last step had been done: evaluate, and write the results
  interrupt,  // save a checkpoint and end at once
  diverged,   // a loss is not finite: end with an error, and save nothing
};

// Purpose: hears of SIGTERM (interrupt) and of a file that the user makes, OUTPUT/stop (finish). Lives on the
// main thread from before the ranks meet to the results; one at a time, as a signal has one handler. From the
// first on SIGTERM ends the program by its trainings only: a signal between two trainings ends the next, and
// a signal after the results is too late.
class StopRequest {
 public:
  explicit StopRequest(std::filesystem::path file);
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // A file that is there before the first training was for a run before.
  static void forget(const std::filesystem::path& file);

  // The request that this rank knows of now. The file is removed when it has been seen.
  Stop seen();

 private:
  std::filesystem::path file_;
  bool file_seen_ = false;
};

}  // namespace rueda::examples
