// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bare_crossing.h"

#include <chrono>

namespace rueda::bench {

BareCrossing::BareCrossing() : other_([this] { answer(); }) { seconds(); }

BareCrossing::~BareCrossing() {
  asked_.store(-1);
  there_.ring();
  other_.join();
}

double BareCrossing::seconds() {
  const auto start = std::chrono::steady_clock::now();
  asked_.store(++calls_);
  there_.ring();
  await(back_, answered_, calls_);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void BareCrossing::answer() {
  for (int seen = 0;;) {
    await(there_, asked_, seen + 1);
    seen = asked_.load();
    if (seen < 0) return;
    answered_.store(seen);
    back_.ring();
  }
}

// Until the word has come to the value, or says the end.
void BareCrossing::await(Bell& bell, const std::atomic<int>& word, int value) {
  while (true) {
    const std::uint32_t heard = bell.listen();
    const int now = word.load();
    if (now >= value || now < 0) return bell.stay_awake();
    bell.sleep(heard, std::chrono::seconds(1));
  }
}

}  // namespace rueda::bench
