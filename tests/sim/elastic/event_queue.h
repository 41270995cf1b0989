// SPDX-License-Identifier: Apache-2.0
// A simulated clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace rueda {

// Purpose: what is to happen, in the order of its time; of two at one time the earlier made comes first.
// Times are microseconds.
class EventQueue {
 public:
  double now() const { return now_; }
  // Not before now.
  void at(double time, std::function<void()> act) {
    events_.push({std::max(time, now_), made_++, std::move(act)});
  }
  // Until nothing is left, or `over` says so.
  void run(const std::function<bool()>& over) {
    while (!events_.empty() && !over()) {
      const std::function<void()> act = std::move(const_cast<Event&>(events_.top()).act);
      now_ = events_.top().time;
      events_.pop();
      act();
    }
  }

 private:
  struct Event {
    double time = 0;
    std::uint64_t number = 0;
    std::function<void()> act;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t made_ = 0;
  double now_ = 0;
};

}  // namespace rueda
