// SPDX-License-Identifier: Apache-2.0
// The least that it takes to hand something to another thread and to get it back.
#pragma once

#include <atomic>
#include <thread>

#include "core/engine/bell.h"

namespace rueda::bench {

// Purpose: a second thread, on the cores of the one that makes it, that sleeps as a coordinator does and
// answers each ring by another. The main thread's.
class BareCrossing {
 public:
  BareCrossing();
  ~BareCrossing();

  // Seconds from this thread to the other and back again.
  double seconds();

 private:
  void answer();
  static void await(Bell& bell, const std::atomic<int>& word, int value);

  Bell there_;
  Bell back_;
  std::atomic<int> asked_{0};     // how often; -1: no more
  std::atomic<int> answered_{0};  // how often
  int calls_ = 0;
  std::thread other_;
};

}  // namespace rueda::bench
