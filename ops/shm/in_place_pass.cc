// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/in_place_pass.h"

namespace rueda {

Work::Step InPlacePass::step(InPlaceOperation& operation, AreaProgress& area, TimedStores& stores) {
  if (state_ == State::reducing) {
    Work::Step step = Work::Step::done;
    stores.time([&] { step = operation.take_in_place(offers_); });
    if (step != Work::Step::done) return step;
    state_ = State::waiting_for_others;
    area.say_taken(1);
  }
  if (state_ == State::waiting_for_others) {
    if (!area.all_taken(1)) return Work::Step::waiting;
    state_ = State::over;
  }
  return Work::Step::done;
}

std::string_view to_string(InPlacePass::State state) {
  switch (state) {
    case InPlacePass::State::reducing: return "reducing in place";
    case InPlacePass::State::waiting_for_others: return "waiting for others to reduce";
    case InPlacePass::State::over: return "unpacking tensors";
  }
  return "";
}

}  // namespace rueda
