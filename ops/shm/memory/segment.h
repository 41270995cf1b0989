// SPDX-License-Identifier: Apache-2.0
// The memory of one rank that the ranks of its host share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/control/messages/plan.h"
#include "core/engine/wait/event_count.h"
#include "core/observe/recorder_page.h"
#include "ops/shm/memory/byte_ring.h"
#include "ops/shm/memory/segment_handle.h"
#include "ops/shm/memory/shared_file.h"
#include "rueda/status.h"

namespace rueda {

// The contents of a segment. Its own rank writes all of it, unless a comment says otherwise.
struct SegmentContents {
  static constexpr std::uint64_t kMagic = 0x31'6d'68'73'61'64'65'75;  // "uedashm1"
  static constexpr std::uint32_t kVersion = 12;
  static constexpr std::size_t kSlots = 8;
  static constexpr std::size_t kSlotBytes = 4096;
  static constexpr std::size_t kAreas = rueda::kAreas;
  static constexpr std::size_t kBuffers = 2;
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
  static constexpr std::size_t kWideAreas = 4;
  static constexpr std::size_t kWideBuffers = 8;
  static constexpr std::size_t kOfferBytes = std::size_t{64} << 10;

  // The member for which this rank waits, by its index, from 1 on; 0: for any (PeerGroup::ring_who_awaits).
  using Awaited = std::atomic<std::uint32_t>;

  // This rank's progress in the one-shot that uses the slot (one_shot.h).
  struct Flag {
    alignas(64) std::atomic<std::uint64_t> value{0};
    alignas(16) std::byte values[48];                  // in place of a slot, if they are few: on their way
                                                       // with what says that they are there
    alignas(64) std::atomic<std::uint32_t> wanted{0};  // this rank waits for others to leave: they ring
    Awaited awaited{0};                                // to write
  };

  // This rank's progress in the Plan that uses an area (staged_work.h). Words that are read at different
  // times lie in lines of their own. Else a store would wait for a line that a reader of another word has
  // just taken.
  struct Progress {
    alignas(64) std::atomic<std::uint64_t> written{0};
    std::atomic<std::uint64_t> taken{0};
    std::byte offer[48];  // of few tensors: on its way with what says that it is there
    alignas(64) std::atomic<std::uint64_t> left{0};
    alignas(64) std::atomic<std::uint32_t> wanted{0};  // this rank waits for others to leave: they ring
    Awaited awaited_written{0};
    Awaited awaited_taken{0};
  };

  // Through which the chunks of one Plan at a time pass. Other ranks write into the buffers.
  struct Area {
    Progress progress;
    alignas(4096) std::byte buffers[kBuffers * kBufferBytes];
  };

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  SegmentHandle window;                     // of this rank's window (window.h); its size is 0: none
  std::atomic<std::uint32_t> ended{0};      // this rank came to the end of its job: its death is no loss
  std::atomic<std::uint32_t> told{0};       // somebody has printed the record of this rank's end
  std::atomic<std::uint32_t> connected{0};  // this rank has mapped all that it can, and asks nobody any more
  alignas(64) EventCountWord doorbell;      // rung by all
  ByteRing down;                            // from the leader of the host, which writes it
  ByteRing up;                              // to the leader, which reads it
  Flag flags[kSlots];
  alignas(64) std::byte slots[kSlots][kSlotBytes];
  Area areas[kAreas];
  RecorderPage record;  // what this rank did last, to be read when it is dead
  // The same, with more buffers, for Plans that concern several hosts (ops/hierarchy). There only where
  // claim_wide_areas() said so.
  Progress wide_progress[kWideAreas];
  alignas(4096) std::byte wide[kWideAreas][kWideBuffers * kBufferBytes];
  alignas(4096) std::byte wide_offers[kWideAreas][kOfferBytes];
};

// Purpose: a rank's SharedFile with SegmentContents in it. Made and destroyed by any thread.
class Segment {
 public:
  struct Result;

  // A new one for this rank, or words that name the size wanted and the remedy.
  static Result make();
  // The segment of another rank of this host, in an opened file.
  static Result in(SharedFile::Result opened);
  static Result open(const SegmentHandle& handle);

  explicit Segment(std::shared_ptr<SharedFile> file) : file_(std::move(file)) {}

  // By its maker: from now on the wide areas can be used, by all.
  Status claim_wide_areas();

  SegmentContents& contents() const { return *reinterpret_cast<SegmentContents*>(file_->data()); }
  const SegmentHandle& handle() const { return file_->handle(); }
  const std::shared_ptr<SharedFile>& file() const { return file_; }

 private:
  std::shared_ptr<SharedFile> file_;
};

// A segment, or the reason why there is none.
struct Segment::Result {
  std::shared_ptr<Segment> segment;
  Status status;
};

}  // namespace rueda
