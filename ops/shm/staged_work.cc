// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/staged_work.h"

#include <algorithm>
#include <utility>

#include "ops/kernels/line.h"

namespace rueda {
namespace {

std::uint64_t at(std::uint64_t plan, std::uint64_t count) { return (plan << 24) + count; }

}  // namespace

std::size_t StagedWork::chunk_bytes(std::int64_t wanted) {
  const auto lines = static_cast<std::size_t>(std::max<std::int64_t>(wanted, 0)) / kLine * kLine;
  return std::clamp(lines, kLine, SegmentContents::kBufferBytes);
}

StagedWork::StagedWork(std::uint64_t plan, const WorkPlace& place)
    : plan_(plan),
      crew_(place.crew),
      area_(place.number),
      travels_(place.wide),
      use_(place.last),
      last_(place.last),
      buffer_count_(place.wide ? SegmentContents::kWideBuffers : SegmentContents::kBuffers),
      buffers_(lists_, place.crew.size()),
      choices_(place.stores) {
  for (std::size_t i = 0; i < members(); ++i) buffers_.emplace_back(nullptr);
  place.last.plan = plan;
  place.last.crew = &crew_;
}

StagedWork::Progress& StagedWork::progress(const PeerGroup& crew, std::size_t member) const {
  SegmentContents& contents = *crew.members[member].contents;
  return travels_ ? contents.wide_progress[area_] : contents.areas[area_].progress;
}

std::byte* StagedWork::buffer(std::size_t member, std::size_t chunk) const {
  SegmentContents& contents = *crew_.members[member].contents;
  std::byte* const buffers = travels_ ? contents.wide[area_] : contents.areas[area_].buffers;
  return buffers + (chunk & (buffer_count_ - 1)) * SegmentContents::kBufferBytes;
}

// A long one lies in the buffers, where these serve nobody who goes in place.
std::byte* StagedWork::offer_of(std::size_t member, std::size_t bytes) const {
  if (bytes <= sizeof(Progress::offer)) return progress(member).offer;
  return travels_ ? crew_.members[member].contents->wide_offers[area_] : buffer(member, 0);
}

Work::Step StagedWork::step() {
  const Step none = stage_ == Stage::before ? Step::again : Step::waiting;  // it may have moved before that
  if (stage_ == Stage::before) {
    if (!abandoned_ && !prepared_) {
      if (prepare()) return Step::again;
      prepared_ = true;
    }
    if (!area_is_free()) return Step::waiting;
    const std::size_t bytes = abandoned_ || chunks_ == 0 ? 0 : offer_bytes();
    begin_stage(bytes > 0 ? Stage::offered : Stage::staged);
    if (bytes > 0) {
      offer(offer_of(place(), bytes));
      say(&Progress::written, kOffered);
    }
  }
  if (!abandoned_ && stage_ == Stage::offered && !decide()) return none;
  if (gives_up()) return give_up();
  if (stage_ == Stage::in_place) return step_in_place();
  if (unpacked_ == chunks_) return put_in_places() ? Step::again : leave(Step::done);
  const bool packed = pack_one(), taken = take_one(), finished = travels_ && finish_some(),
             unpacked = unpack_one();
  if (gives_up()) return give_up();
  if (unpacked && unpacked_ == chunks_ && !put_in_places()) return leave(Step::done);
  return packed || taken || finished || unpacked ? Step::again : none;
}

std::string_view StagedWork::phase() const {
  if (said_void_) return "abandoning an operation that failed";
  if (stage_ == Stage::before)
    return prepared_ ? "waiting until an earlier operation has left its memory" : "packing tensors";
  if (stage_ == Stage::offered) return "waiting for the tensors of others";
  if (stage_ == Stage::in_place && took_in_place_) return "waiting for others to reduce";
  if (stage_ == Stage::in_place) return travels_ ? journey() : "reducing in place";
  if (unpacked_ == chunks_) return "unpacking tensors";
  if (taken_ < begun_) return journey();
  return packed_ == 0 ? "packing tensors" : "reducing or moving data in shared memory";
}

// Whether it is known how the Plan goes on. Who has not offered packs, and who sees that packs too: so all
// come to the same end, whatever they see first. Who sees that a member has abandoned the Plan does not know
// whether others are in its tensors.
bool StagedWork::decide() {
  if (!all_have(&Progress::written, kOffered, know_written_)) return false;
  Stage next = Stage::in_place;
  const std::size_t bytes = offer_bytes();
  for (std::size_t i = 0; i < members(); ++i) {
    const std::uint64_t value = progress(i).written.load();
    if (value == at(plan_, kVoid)) abandoned_ = true;
    if (value > at(plan_, kOffered)) next = Stage::staged;
    buffers_[i] = offer_of(i, bytes);
  }
  if (!abandoned_) begin_stage(next);
  return true;
}

void StagedWork::begin_stage(Stage stage) {
  stage_ = stage;
  if (choices_ == nullptr || stage == Stage::offered) return;
  stores_ = TimedStores(stage == Stage::in_place ? choices_->in_place : choices_->staged);
}

template <class Loops>
void StagedWork::run(std::size_t chunk, Loops loops) {
  timed(chunk) ? stores_.time(loops) : loops();
}

Work::Step StagedWork::step_in_place() {
  if (!took_in_place_) {
    Step step = Step::done;
    stores_.time([&] { step = take_in_place(buffers_.all()); });
    if (step != Step::done) return step;
    took_in_place_ = true;
    say(&Progress::taken, 1);
  }
  if (!all_have(&Progress::taken, 1, know_taken_)) return Step::waiting;
  if (abandoned_) return give_up();
  return put_in_places() ? Step::again : leave(Step::done);
}

// Who saw that all were through with the last Plan need not look who has left it. While this rank itself is
// in it there is nothing to be rung for.
bool StagedWork::area_is_free() {
  if (use_.over >= last_.plan) return true;
  if (own().left.load(std::memory_order_relaxed) < last_.plan) return false;
  if (!all_left()) {
    own().wanted.store(1);
    if (!all_left()) return false;
  }
  if (own().wanted.load(std::memory_order_relaxed) != 0) own().wanted.store(0);
  return true;
}

// This rank too.
bool StagedWork::all_left() {
  while (left_ < last_.crew->size() && progress(*last_.crew, left_).left.load() >= last_.plan) ++left_;
  return left_ == last_.crew->size();
}

// Whether all members have come to `count`, or abandoned the Plan. `known` of them have.
bool StagedWork::all_have(Word word, std::uint64_t count, std::size_t& known) {
  for (; known < members(); ++known) {
    const std::uint64_t value = (progress(known).*word).load();
    if (value < at(plan_, count)) return false;
    if (value == at(plan_, kVoid)) abandoned_ = true;
  }
  known = 0;
  return true;
}

void StagedWork::find_buffers(std::size_t chunk) {
  for (std::size_t i = 0; i < members(); ++i) buffers_[i] = buffer(i, chunk);
}

void StagedWork::say(Word word, std::uint64_t count) {
  kernels::fetch_to_write(&own().left);  // which will be said before long
  (own().*word).store(at(plan_, count));
  crew_.ring_others();
}

bool StagedWork::pack_one() {
  if (packed_ == chunks_ || packed_ == unpacked_ + buffer_count_) return false;
  if (const Ready is = ready(packed_); is != Ready::yes) return is == Ready::working;
  run(packed_, [this] { pack(packed_, own_buffer(packed_)); });
  say(&Progress::written, kOffered + ++packed_);
  return true;
}

bool StagedWork::take_one() {
  if (begun_ == packed_ || !all_have(&Progress::written, kOffered + begun_ + 1, know_written_) || gives_up())
    return false;
  find_buffers(begun_);
  run(begun_, [this] { take(begun_, buffers_.all()); });
  ++begun_;
  if (!travels_) say(&Progress::taken, ++taken_);
  return true;
}

// Of what has come back, all that is next.
bool StagedWork::finish_some() {
  bool moved = travel();
  for (; taken_ < begun_ && back(taken_) && !gives_up(); moved = true) {
    find_buffers(taken_);
    finish(taken_, buffers_.all());
    say(&Progress::taken, ++taken_);
  }
  return moved;
}

bool StagedWork::unpack_one() {
  if (gives_up() || unpacked_ == taken_ || !all_have(&Progress::taken, unpacked_ + 1, know_taken_) ||
      gives_up())
    return false;
  unpack(unpacked_, own_buffer(unpacked_));
  ++unpacked_;
  return true;
}

Work::Step StagedWork::give_up() {
  if (!std::exchange(said_void_, true)) {
    own().written.store(at(plan_, kVoid));
    say(&Progress::taken, kVoid);
    know_taken_ = 0;
  }
  // First the journeys: those who are still in this rank's tensors may wait for what comes of these.
  if (const Step step = travels_ ? run_out() : Step::done; step != Step::done) return step;
  const bool offered = stage_ == Stage::offered || stage_ == Stage::in_place;
  if (offered && !all_have(&Progress::taken, 1, know_taken_)) return Step::waiting;
  return leave(Step::given_up);
}

Work::Step StagedWork::leave(Step how) {
  if (how == Step::done) {
    stores_.tell(bytes_moved());
    use_.over = plan_;
  }
  own().left.store(plan_);
  for (std::size_t i = 0; i < members(); ++i) {
    if (progress(i).wanted.load() != 0) crew_.members[i].bell->ring();
  }
  return how;
}

}  // namespace rueda
