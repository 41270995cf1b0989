// SPDX-License-Identifier: Apache-2.0
// How far each rank has come with one Plan in an area of shared memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/buffers/inline_vectors.h"
#include "ops/shm/peer_group.h"

namespace rueda {

// Purpose: the counters of one Plan, which its ranks share, and the buffers of its area. Part of a
// StagedWork.
//
// `written` and `taken` are the Plan's number * 2^24 + a count, `left` is the Plan's number; each is written
// by its rank alone and only grows. `written` counts an offer as 1, and c chunks as c + 1; `taken` counts
// chunks, and the tensors that were reduced in place as 1.
//
// A rank that finishes a Plan has seen that all have taken everything. Nobody reads or writes its buffers any
// more, so its next Plan may begin at once. A rank that abandons a Plan says so by a count of kVoid, and all
// that wait for it see that. Others may still be in its buffers: its next Plan in the area begins when all
// members have left this one.
//
// A store to `written` or `taken` rings the members that await this one (PeerGroup::ring_who_awaits). kVoid
// rings all members. A store to `left` rings members whose `wanted` is set. A waiting member sets `wanted`,
// then looks at `left` once more. A leaving member stores `left`, then looks at `wanted`. All are seq_cst.
class AreaProgress {
 public:
  AreaProgress(std::uint64_t plan, const WorkContext& context, InlineVectors& lists);

  // The most that counts can say.
  static constexpr std::uint64_t kMostChunks = (std::uint64_t{1} << 24) - 3;
  static constexpr std::uint64_t kOffered = 1;

  // Whether the last Plan's members have left the area.
  bool free();
  // This rank's count, told to all.
  void say_written(std::uint64_t count) { say(&Progress::written, count); }
  void say_taken(std::uint64_t count) { say(&Progress::taken, count); }
  void say_void();
  // Whether all members have come to `count`, or abandoned the Plan; then this rank abandons it too.
  bool all_written(std::uint64_t count) { return all_have(&Progress::written, count, know_written_); }
  bool all_taken(std::uint64_t count) { return all_have(&Progress::taken, count, know_taken_); }
  // Once all have written: whether nobody has written more than an offer.
  bool all_offered();
  // `over`: this rank has seen that all have taken everything.
  void leave(bool over);

  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

  // The buffers of all members for a chunk, or their offers of so many bytes; valid until the next call.
  std::span<std::byte* const> buffers(std::size_t chunk);
  std::span<std::byte* const> offers(std::size_t bytes);
  std::byte* own_buffer(std::size_t chunk) const { return buffer(index(), chunk); }
  std::byte* own_offer(std::size_t bytes) const { return offer_of(index(), bytes); }

  bool wide() const { return wide_; }
  std::size_t buffer_count() const { return buffer_count_; }  // chunks that may be under way
  std::size_t index() const { return peers_.index; }          // of this rank among the members
  std::size_t members() const { return peers_.size(); }

 private:
  using Progress = SegmentContents::Progress;
  using Word = std::atomic<std::uint64_t> Progress::*;
  static constexpr std::uint64_t kVoid = kMostChunks + 2;

  Progress& progress(const PeerGroup& peers, std::size_t member) const;
  Progress& progress(std::size_t member) const { return progress(peers_, member); }
  Progress& own() const { return progress(index()); }
  std::byte* buffer(std::size_t member, std::size_t chunk) const;
  std::byte* offer_of(std::size_t member, std::size_t bytes) const;
  bool all_left();
  bool all_have(Word word, std::uint64_t count, std::size_t& known);
  void say(Word word, std::uint64_t count);
  static SegmentContents::Awaited& awaited(Progress& progress, Word word) {
    return word == &Progress::written ? progress.awaited_written : progress.awaited_taken;
  }

  const std::uint64_t plan_;
  const PeerGroup& peers_;
  const std::size_t area_;
  const bool wide_;
  bool abandoned_ = false;
  LastUse& use_;
  const LastUse last_;                // before this one
  const std::size_t buffer_count_;    // a power of 2
  InlineVector<std::byte*> buffers_;  // of all members
  std::size_t left_ = 0;              // of the last Plan's members
  std::size_t know_written_ = 0;      // members that have
  std::size_t know_taken_ = 0;
};

}  // namespace rueda
