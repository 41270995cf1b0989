// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/staged_work.h"

#include <algorithm>
#include <utility>

#include "ops/kernels/line.h"

namespace rueda {
namespace {

std::uint64_t at(std::uint64_t plan, std::uint64_t count) { return (plan << 24) + count; }

SegmentContents::Progress& progress_of(const AreaPlace& place, Rank member) {
  SegmentContents& contents = place.neighbours.contents(member);
  return place.wide ? contents.wide_progress[place.area] : contents.areas[place.area].progress;
}

std::byte* buffers_of(const AreaPlace& place, Rank member) {
  SegmentContents& contents = place.neighbours.contents(member);
  return place.wide ? contents.wide[place.area] : contents.areas[place.area].buffers;
}

// In the buffers, where these serve nobody who goes in place.
std::byte* offer_of(const AreaPlace& place, Rank member) {
  if (!place.wide) return buffers_of(place, member);
  return place.neighbours.contents(member).wide_offers[place.area];
}

std::size_t place_of(Rank rank, std::span<const Rank> members) {
  return static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
}

}  // namespace

std::size_t StagedWork::chunk_bytes(std::int64_t wanted) {
  const auto lines = static_cast<std::size_t>(std::max<std::int64_t>(wanted, 0)) / kLine * kLine;
  return std::clamp(lines, kLine, SegmentContents::kBufferBytes);
}

StagedWork::StagedWork(std::uint64_t plan, const AreaPlace& place)
    : plan_(plan),
      last_plan_(place.last.plan),
      place_(place_of(place.rank, place.members)),
      travels_(place.wide),
      buffer_count_(place.wide ? SegmentContents::kWideBuffers : SegmentContents::kBuffers),
      choices_(place.stores) {
  last_.reserve(place.last.members.size());
  for (Rank member : place.last.members) {
    last_.push_back(&progress_of(place, member));
    __builtin_prefetch(&last_.back()->left);  // its line is on its way while the rest is made
  }
  members_.reserve(place.members.size());
  for (Rank member : place.members)
    members_.push_back({&progress_of(place, member), buffers_of(place, member), offer_of(place, member),
                        &place.neighbours.bell(member)});
  buffers_.resize(members_.size());
  place.last.plan = plan;
  place.last.members.assign(place.members.begin(), place.members.end());
}

Work::Step StagedWork::step() {
  if (stage_ == Stage::before) {
    if (!abandoned_ && !prepared_) {
      prepared_ = !prepare();
      return Step::again;
    }
    if (!area_is_free()) return Step::waiting;
    begin_stage(!abandoned_ && offer(members_[place_].offer) ? Stage::offered : Stage::staged);
    if (stage_ == Stage::offered) say(&Progress::written, kOffered);
  }
  if (!abandoned_ && stage_ == Stage::offered && !decide()) return Step::waiting;
  if (gives_up()) return give_up();
  if (stage_ == Stage::in_place) return step_in_place();
  if (unpacked_ == chunks_) return put_in_places() ? Step::again : leave(Step::done);
  const bool packed = pack_one(), taken = take_one(), finished = travels_ && finish_some(),
             unpacked = unpack_one();
  if (gives_up()) return give_up();
  return packed || taken || finished || unpacked ? Step::again : Step::waiting;
}

std::string_view StagedWork::phase() const {
  if (said_void_) return "abandoning an operation that failed";
  if (stage_ == Stage::before)
    return prepared_ ? "waiting until others have left the last operation" : "packing tensors";
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
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::uint64_t value = members_[i].progress->written.load();
    if (value == at(plan_, kVoid)) abandoned_ = true;
    if (value > at(plan_, kOffered)) next = Stage::staged;
    buffers_[i] = members_[i].offer;
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
    stores_.time([&] { step = take_in_place(buffers_); });
    if (step != Step::done) return step;
    took_in_place_ = true;
    say(&Progress::taken, 1);
  }
  if (!all_have(&Progress::taken, 1, know_taken_)) return Step::waiting;
  if (abandoned_) return give_up();
  return put_in_places() ? Step::again : leave(Step::done);
}

bool StagedWork::area_is_free() {
  if (!all_left()) {
    own().wanted.store(1);
    if (!all_left()) return false;
  }
  if (own().wanted.load(std::memory_order_relaxed) != 0) own().wanted.store(0);
  return true;
}

bool StagedWork::all_left() {
  while (left_ < last_.size() && last_[left_]->left.load() >= last_plan_) ++left_;
  return left_ == last_.size();
}

// Whether all members have come to `count`, or abandoned the Plan. `known` of them have.
bool StagedWork::all_have(Word word, std::uint64_t count, std::size_t& known) {
  for (; known < members_.size(); ++known) {
    const std::uint64_t value = (members_[known].progress->*word).load();
    if (value < at(plan_, count)) return false;
    if (value == at(plan_, kVoid)) abandoned_ = true;
  }
  known = 0;
  return true;
}

void StagedWork::find_buffers(std::size_t chunk) {
  for (std::size_t i = 0; i < members_.size(); ++i) buffers_[i] = buffer(members_[i], chunk);
}

void StagedWork::say(Word word, std::uint64_t count) {
  kernels::fetch_to_write(&own().left);  // which will be said before long
  (own().*word).store(at(plan_, count));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (i != place_) members_[i].bell->ring();
  }
}

bool StagedWork::pack_one() {
  if (packed_ == chunks_ || packed_ == unpacked_ + buffer_count_) return false;
  if (const Ready is = ready(packed_); is != Ready::yes) return is == Ready::working;
  run(packed_, [this] { pack(packed_, buffer(members_[place_], packed_)); });
  say(&Progress::written, kOffered + ++packed_);
  return true;
}

bool StagedWork::take_one() {
  if (begun_ == packed_ || !all_have(&Progress::written, kOffered + begun_ + 1, know_written_) || gives_up())
    return false;
  find_buffers(begun_);
  run(begun_, [this] { take(begun_, buffers_); });
  ++begun_;
  if (!travels_) say(&Progress::taken, ++taken_);
  return true;
}

// Of what has come back, all that is next.
bool StagedWork::finish_some() {
  bool moved = travel();
  for (; taken_ < begun_ && back(taken_) && !gives_up(); moved = true) {
    find_buffers(taken_);
    finish(taken_, buffers_);
    say(&Progress::taken, ++taken_);
  }
  return moved;
}

bool StagedWork::unpack_one() {
  if (gives_up() || unpacked_ == taken_ || !all_have(&Progress::taken, unpacked_ + 1, know_taken_) ||
      gives_up())
    return false;
  unpack(unpacked_, buffer(members_[place_], unpacked_));
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
  if (how == Step::done) stores_.tell(bytes_moved());
  own().left.store(plan_);
  for (const Member& member : members_) {
    if (member.progress->wanted.load() != 0) member.bell->ring();
  }
  return how;
}

}  // namespace rueda
