// SPDX-License-Identifier: Apache-2.0
// How a training is asked to end before its last step.
#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>

namespace rueda::examples {

// What a rank has been asked, the stronger one last: ranks agree on the maximum.
enum class Stop : std::int32_t {
  none,
  finish,     // as if the last step had been done: evaluate, and write the results
  interrupt,  // save a checkpoint and end at once
  diverged,   // a loss is not finite: end with an error, and save nothing
};

// Purpose: hears of SIGTERM (interrupt) and of a file that the user makes, OUTPUT/stop (finish). Lives on the
// main thread from before the ranks meet to the results; only one at a time, as a signal has one handler.
// What SIGTERM did before is restored at the end.
class StopRequest {
 public:
  // A file that is there already is removed: it was for a run before.
  explicit StopRequest(std::filesystem::path file);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // What this rank knows of now. The file is removed when it has been seen.
  Stop seen();

 private:
  std::filesystem::path file_;
  bool file_seen_ = false;
  struct sigaction before_ {};
};

}  // namespace rueda::examples
