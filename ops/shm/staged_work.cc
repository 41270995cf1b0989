// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/staged_work.h"

#include <algorithm>

namespace rueda {

std::size_t StagedWork::chunk_bytes(std::int64_t wanted) {
  const auto lines = static_cast<std::size_t>(std::max<std::int64_t>(wanted, 0)) / kLine * kLine;
  return std::clamp(lines, kLine, SegmentContents::kBufferBytes);
}

StagedWork::StagedWork(std::uint64_t plan, const WorkContext& context)
    : area_(plan, context, lists_), policies_(context.stores) {}

Work::Step StagedWork::step() {
  Step none = Step::waiting;  // if this state has nothing to do
  while (true) {
    if (gives_up()) {
      if (has_offered()) enter(State::abandoning_offer);
      if (state_ == State::buffers || state_ == State::unpacking) enter(State::abandoning);
    }
    switch (state_) {
      case State::preparing:
        if (!abandoned() && prepare()) return Step::again;
        enter(State::waiting_for_area);
        break;
      case State::waiting_for_area:
        if (!area_.free()) return Step::waiting;
        begin();
        none = Step::again;
        break;
      case State::offered:
        if (!choose_pass()) return none;
        break;
      case State::in_place: {
        Step reduced = Step::done;
        {
          const TimedStores::Timing timing(stores_);
          reduced = take_in_place(offers_);
        }
        if (reduced != Step::done) return reduced;
        area_.say_taken(1);
        enter(State::waiting_for_others);
        break;
      }
      case State::waiting_for_others:
        if (!area_.all_taken(1)) return Step::waiting;
        enter(State::unpacking);
        break;
      case State::buffers: {
        const bool over = buffer_pass_.state() == BufferPass::State::over;
        const bool moved = !over && buffer_pass_.step(*this, area_, stores_);
        if (over || buffer_pass_.state() == BufferPass::State::over) {
          enter(State::unpacking);
        } else if (!gives_up()) {
          return moved ? Step::again : none;
        }
        break;
      }
      case State::unpacking: return copy_back() ? Step::again : leave(Step::done);
      case State::abandoning_offer:
      case State::abandoning: return run_out_and_leave();
    }
  }
}

void StagedWork::enter(State state) {
  state_ = state;
  if (state == State::abandoning_offer || state == State::abandoning) area_.say_void();
  if (policies_ == nullptr) return;
  if (state == State::in_place) stores_ = TimedStores(policies_->in_place);
  if (state == State::buffers) stores_ = TimedStores(policies_->staged);
}

// The area is this Plan's.
void StagedWork::begin() {
  const std::size_t bytes = abandoned() || chunks() == 0 ? 0 : offer_bytes();
  enter(bytes > 0 ? State::offered : State::buffers);
  if (bytes == 0) return;
  offer(area_.own_offer(bytes));
  area_.say_written(AreaProgress::kOffered);
}

// Whether it is known how the Plan goes on. A rank that sees that a member has abandoned the Plan does not
// know whether others are in its tensors.
bool StagedWork::choose_pass() {
  if (!area_.all_written(AreaProgress::kOffered)) return false;
  const bool in_place = area_.all_offered();
  if (abandoned()) {
    enter(State::abandoning_offer);
    return true;
  }
  if (in_place) offers_ = area_.offers(offer_bytes());
  enter(in_place ? State::in_place : State::buffers);
  return true;
}

// First the journeys: those who are still in this rank's tensors may wait for their results.
Work::Step StagedWork::run_out_and_leave() {
  if (const Step step = area_.wide() ? run_out() : Step::done; step != Step::done) return step;
  if (state_ == State::abandoning_offer && !area_.all_taken(1)) return Step::waiting;
  return leave(Step::given_up);
}

Work::Step StagedWork::leave(Step how) {
  if (how == Step::done) stores_.tell(bytes_moved());
  area_.leave(how == Step::done);
  return how;
}

std::string_view StagedWork::phase() const {
  if (state_ == State::in_place && area_.wide()) return journey();
  if (state_ != State::buffers) return to_string(state_);
  const BufferPass::State pass = buffer_pass_.state();
  return pass == BufferPass::State::travelling ? journey() : to_string(pass);
}

std::string_view to_string(StagedWork::State state) {
  switch (state) {
    case StagedWork::State::preparing: return "packing tensors";
    case StagedWork::State::waiting_for_area: return "waiting until an earlier operation has left its memory";
    case StagedWork::State::offered: return "waiting for the tensors of others";
    case StagedWork::State::in_place: return "reducing in place";
    case StagedWork::State::waiting_for_others: return "waiting for others to reduce";
    case StagedWork::State::buffers: return "reducing or moving data in shared memory";
    case StagedWork::State::unpacking: return "unpacking tensors";
    case StagedWork::State::abandoning_offer:
    case StagedWork::State::abandoning: return "abandoning an operation that failed";
  }
  return "";
}

}  // namespace rueda
