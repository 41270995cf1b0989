// SPDX-License-Identifier: Apache-2.0
#include "core/engine/wait/event_count.h"

namespace rueda {

void EventCount::ring() {
  // Whoever ends the sleep counts its ring after that, and so wakes even one that has begun to sleep anew.
  if (word_->sleeping.load() != 0 && word_->sleeping.exchange(0) != 0) wake();
}

void EventCount::wake() {
  word_->rings.fetch_add(1);
  wake_all_on(word_->rings);
}

std::uint32_t EventCount::listen() {
  const std::uint32_t before = heard();
  word_->sleeping.store(1);
  return before;
}

void EventCount::stay_awake() { word_->sleeping.store(0); }

void EventCount::sleep(std::uint32_t heard, std::chrono::nanoseconds longest) {
  sleep_on(word_->rings, heard, longest);
  word_->sleeping.store(0);
}

}  // namespace rueda
