// SPDX-License-Identifier: Apache-2.0
// The reducers that each generation of an elastic job makes anew.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "rueda/process_set.h"

namespace rueda {

class GradientReducer;

// Purpose: knows the reducers of the default Runtime that were made outside of elastic::run(). A function
// that elastic::run() calls makes its own reducers each time. One for the process. Any thread may make
// reducers; the thread in elastic::run() does the rest.
class Generations {
 public:
  static Generations& of_process();

  // Returns true if ranks come here at different times, since a new worker comes alone.
  bool ranks_come_alone() const;
  // Returns true if a reducer begins its generation later, since ranks make it at different times.
  bool is_deferred(const Scope& scope) const;
  void add(GradientReducer& reducer, const Scope& scope);
  void remove(GradientReducer& reducer);
  // Begins the present generation of all reducers that have not done so, in the order in which they were
  // made. Collective.
  void begin();

  // Purpose: while it lives, all ranks are at one point in the program.
  class InRun {
   public:
    InRun() { ++of_process().running_; }
    ~InRun() { --of_process().running_; }
    InRun(const InRun&) = delete;
    InRun& operator=(const InRun&) = delete;
  };

 private:
  struct Member {
    GradientReducer* reducer;
    std::uint64_t job;  // in which its generation has begun; 0: none
  };

  std::atomic<int> running_ = 0;
  std::mutex mutex_;
  std::vector<Member> members_;  // guarded by the mutex
};

}  // namespace rueda
