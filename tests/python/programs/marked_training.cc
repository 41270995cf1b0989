// SPDX-License-Identifier: Apache-2.0
// marked_training STEPS [LATE_RANK LATE_MS FROM_STEP]: the loop of a training that computes nothing, with all
// its marks. One rank may load its samples slowly from a step on.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "rueda/rueda.h"

int main(int count, char** words) {
  using std::chrono::duration;
  const auto number = [&](int index, int without) {
    return index < count ? std::atoi(words[index]) : without;
  };
  const auto work = [](double ms) { std::this_thread::sleep_for(duration<double, std::milli>(ms)); };
  const int steps = number(1, 100), late_rank = number(2, -1), late_ms = number(3, 0), from = number(4, 0);
  rueda::init();
  rueda::describe_training(steps, 8);
  for (int step = 0; step < steps; ++step) {
    {
      const rueda::PhaseScope scope(rueda::Phase::data);
      work(1 + (rueda::rank() == late_rank && step >= from ? late_ms : 0));
    }
    {
      const rueda::PhaseScope scope(rueda::Phase::forward);
      work(2);
    }
    {
      const rueda::PhaseScope scope(rueda::Phase::wait);
      rueda::barrier_async().wait();
    }
    rueda::log_scalar("loss", 1.0 / (1 + step));
    rueda::end_step();
  }
  rueda::shutdown();
}
