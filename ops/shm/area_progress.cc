// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/area_progress.h"

#include "ops/kernels/line.h"

namespace rueda {
namespace {

std::uint64_t at(std::uint64_t plan, std::uint64_t count) { return (plan << 24) + count; }

}  // namespace

AreaProgress::AreaProgress(std::uint64_t plan, const WorkContext& context, InlineVectors& lists)
    : plan_(plan),
      peers_(context.peers),
      area_(context.number),
      wide_(context.wide),
      use_(context.last),
      last_(context.last),
      buffer_count_(context.wide ? SegmentContents::kWideBuffers : SegmentContents::kBuffers),
      buffers_(lists, context.peers.size()) {
  for (std::size_t i = 0; i < members(); ++i) buffers_.emplace_back(nullptr);
  context.last.plan = plan;
  context.last.peers = &peers_;
}

AreaProgress::Progress& AreaProgress::progress(const PeerGroup& peers, std::size_t member) const {
  SegmentContents& contents = *peers.members[member].contents;
  return wide_ ? contents.wide_progress[area_] : contents.areas[area_].progress;
}

std::byte* AreaProgress::buffer(std::size_t member, std::size_t chunk) const {
  SegmentContents& contents = *peers_.members[member].contents;
  std::byte* const buffers = wide_ ? contents.wide[area_] : contents.areas[area_].buffers;
  return buffers + (chunk & (buffer_count_ - 1)) * SegmentContents::kBufferBytes;
}

// A long one lies in the buffers, which nobody uses who reduces in place. In a wide area it lies beside them:
// whoever carries something may use buffers before others have read the offer.
std::byte* AreaProgress::offer_of(std::size_t member, std::size_t bytes) const {
  if (bytes <= sizeof(Progress::offer)) return progress(member).offer;
  return wide_ ? peers_.members[member].contents->wide_offers[area_] : buffer(member, 0);
}

std::span<std::byte* const> AreaProgress::buffers(std::size_t chunk) {
  for (std::size_t i = 0; i < members(); ++i) buffers_[i] = buffer(i, chunk);
  return buffers_.all();
}

std::span<std::byte* const> AreaProgress::offers(std::size_t bytes) {
  for (std::size_t i = 0; i < members(); ++i) buffers_[i] = offer_of(i, bytes);
  return buffers_.all();
}

// A rank that saw that all were through with the last Plan need not look who has left it. While this rank
// itself is in it there is nothing to be notified of.
bool AreaProgress::free() {
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
bool AreaProgress::all_left() {
  while (left_ < last_.peers->size() && progress(*last_.peers, left_).left.load() >= last_.plan) ++left_;
  return left_ == last_.peers->size();
}

// `known` members have.
bool AreaProgress::all_have(Word word, std::uint64_t count, std::size_t& known) {
  while (known < members()) {
    const std::uint64_t value = (progress(known).*word).load();
    if (value < at(plan_, count)) {
      if (!PeerGroup::await(awaited(own(), word), known)) return false;
      continue;  // once more
    }
    if (value == at(plan_, kVoid)) abandoned_ = true;
    ++known;
  }
  known = 0;
  return true;
}

bool AreaProgress::all_offered() {
  bool all = true;
  for (std::size_t i = 0; i < members(); ++i) {
    const std::uint64_t value = progress(i).written.load();
    if (value == at(plan_, kVoid)) abandoned_ = true;
    all &= value == at(plan_, kOffered);
  }
  return all;
}

void AreaProgress::say(Word word, std::uint64_t count) {
  kernels::fetch_to_write(&own().left);  // which will be said before long
  (own().*word).store(at(plan_, count));
  peers_.ring_who_awaits([&](std::size_t member) -> auto& { return awaited(progress(member), word); });
}

void AreaProgress::say_void() {
  own().written.store(at(plan_, kVoid));
  own().taken.store(at(plan_, kVoid));
  peers_.ring_others();
  know_taken_ = 0;
}

void AreaProgress::leave(bool over) {
  if (over) use_.over = plan_;
  own().left.store(plan_);
  for (std::size_t i = 0; i < members(); ++i) {
    if (progress(i).wanted.load() != 0) peers_.members[i].doorbell->ring();
  }
}

}  // namespace rueda
