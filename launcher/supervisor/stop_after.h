// SPDX-License-Identifier: Apache-2.0
// Ending a job after a time, or at a wish, by asking its ranks, which may save what they have first.
#pragma once

#include <chrono>
#include <optional>

namespace rueda {

// Purpose: when ranks are asked to stop, and when that is given up; pure, time comes in. Owner: the main
// thread of the supervisor.
class StopAfter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Act { nothing, ask, give_up };

  // `after` 0: never.
  StopAfter(std::chrono::seconds after, std::chrono::seconds grace) : after_(after), grace_(grace) {}

  void on_start(Time now);
  // Somebody wants it now. Ranks may take their time then, until `after` and its grace. Nothing changes where
  // they have been asked.
  void ask_now(Time now);
  // The job ends for another reason, or has ended: nothing is due any more.
  void on_end();
  Act next_act(Time now);  // what is due; call until nothing is
  std::optional<Time> next_time() const { return next_; }
  // When the ranks were asked.
  std::optional<Time> asked_at() const { return asked_at_; }
  // They were asked by ask_now().
  bool is_wish() const { return is_wish_; }

 private:
  std::chrono::seconds after_;
  std::chrono::seconds grace_;
  std::optional<Time> limit_;  // the start and `after`
  std::optional<Time> next_;
  std::optional<Time> asked_at_;
  bool is_wish_ = false;
};

}  // namespace rueda
