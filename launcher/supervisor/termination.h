// SPDX-License-Identifier: Apache-2.0
// When the ranks of a job that must end are told so.
#pragma once

#include <chrono>
#include <optional>

namespace rueda {

// Purpose: the times of a job's end; pure, time comes in. After a failure the other ranks have 3 s for their
// last words, then SIGTERM, 1 s later SIGKILL. After Ctrl-C they have a grace time, after SIGTERM none, then
// 0.7 s to SIGKILL. Agents that are left 0.7 s after SIGKILL, or 3 s after the last rank or its last output,
// lose their connection. A further request can only bring these times nearer. Owner: the main thread of the
// supervisor.
class Ending {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Act { nothing, terminate, kill, force };

  void on_failure(Time now);
  void on_interrupt(Time now, std::chrono::seconds grace);
  void on_terminate(Time now);
  void on_terminate(Time now, std::chrono::seconds grace);
  void on_hurry(Time now);      // asked a second time
  void on_all_ended(Time now);  // of a job that was to end: only agents are left
  void on_output(Time now);     // something has come of what the ranks had written: there may be more

  bool has_begun() const { return force_at_.has_value(); }
  Act next_act(Time now);  // what is due; call until nothing is
  std::optional<Time> next_time() const;

 private:
  void plan(Time terminate, Time kill);

  std::optional<Time> terminate_at_;
  std::optional<Time> kill_at_;
  std::optional<Time> force_at_;
  bool terminated_ = false;
  bool killed_ = false;
  bool all_ended_ = false;
  bool in_a_hurry_ = false;
};

}  // namespace rueda
