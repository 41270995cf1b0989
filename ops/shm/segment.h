// SPDX-License-Identifier: Apache-2.0
// The memory of one rank that the ranks of its host share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/engine/bell.h"
#include "core/observe/recorder_page.h"
#include "ops/shm/byte_ring.h"
#include "ops/shm/card.h"

namespace rueda {

// What lies in a segment. All of it is written by the rank that it belongs to, save what says otherwise.
struct SegmentContents {
  static constexpr std::uint64_t kMagic = 0x31'6d'68'73'61'64'65'75;  // "uedashm1"
  static constexpr std::uint32_t kVersion = 3;
  static constexpr std::size_t kSlots = 8;
  static constexpr std::size_t kSlotBytes = 4096;
  static constexpr std::size_t kAreas = 2;
  static constexpr std::size_t kBuffers = 2;
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

  // Where this rank is in the one-shot that uses the slot (one_shot.h).
  struct alignas(64) Flag {
    std::atomic<std::uint64_t> value{0};
    std::atomic<std::uint32_t> wanted{0};  // this rank waits for others to leave: they ring
  };

  // Through which the chunks of one Plan at a time pass (staged_work.h). Other ranks write into the
  // buffers.
  struct Area {
    struct alignas(64) Progress {
      std::atomic<std::uint64_t> written{0};
      std::atomic<std::uint64_t> taken{0};
      std::atomic<std::uint64_t> left{0};
      std::atomic<std::uint32_t> wanted{0};  // this rank waits for others to leave: they ring
    } progress;
    alignas(4096) std::byte buffers[kBuffers][kBufferBytes];
  };

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint64_t nonce = 0;
  std::atomic<std::uint32_t> ended{0};  // this rank came to the end of its job: its death is no loss
  std::atomic<std::uint32_t> told{0};   // somebody has printed the record of this rank's end
  alignas(64) BellWord bell;            // rung by all
  ByteRing down;                        // from the leader of the host, which writes it
  ByteRing up;                          // to the leader, which reads it
  Flag flags[kSlots];
  alignas(64) std::byte slots[kSlots][kSlotBytes];
  Area areas[kAreas];
  RecorderPage record;  // what this rank did last, to be read when it is dead
};

// Purpose: one mapping of a segment; all pages are there from the start. Ranks that are threads of one
// process share one mapping. The maker keeps the descriptor, through which others open the segment, until it
// is destroyed; nothing is left behind then, however the process ends. Made and destroyed by any thread.
class Segment {
  struct Key {};  // only make() and open() construct one

 public:
  struct Result;

  // A new one for this rank. Fails, naming the size wanted and the remedy, where there is too little memory.
  static Result make();
  // The one of another rank of this host: "this host" means that it can be mapped and has the nonce.
  static Result open(const Card& card);

  Segment(Key, const Card& card, int file, void* memory) : card_(card), file_(file), memory_(memory) {}
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  SegmentContents& contents() const { return *static_cast<SegmentContents*>(memory_); }
  const Card& card() const { return card_; }

 private:
  Card card_;
  int file_;  // -1: another's
  void* memory_;
};

// A segment, or the reason why there is none.
struct Segment::Result {
  std::shared_ptr<Segment> segment;
  Status status;
};

}  // namespace rueda
