// SPDX-License-Identifier: Apache-2.0
// Events on a rank, as its timeline's thread gets them, and the ring that carries them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "rueda/types.h"

namespace rueda {

// Purpose: one moment. A plain value; which fields mean something depends on `kind`.
struct TraceEvent {
  enum class Kind : std::uint8_t {
    submitted,  // ticket, operation, bytes, name
    planned,    // ticket, plan: the tensor's Plan has arrived
    phase,      // plan, phase: its Work is now doing this
    ended,      // ticket, ok: the tensor's operation is complete
    cycle,      // a round of the background thread that moved something
  };
  static constexpr std::size_t kNameBytes = 112;

  Kind kind = Kind::cycle;
  Operation operation = Operation::allreduce;
  bool ok = true;
  std::uint8_t name_length = 0;
  std::uint32_t lost_before = 0;  // events that were lost between the one before and this one
  std::int64_t time_ns = 0;       // of this machine's monotonic clock
  std::uint64_t ticket = 0;
  std::uint64_t plan = 0;
  std::uint64_t bytes = 0;
  std::string_view phase;  // a string that lives for ever
  std::array<char, kNameBytes> name_text;

  void set_name(std::string_view text);  // a long one is shortened
  std::string_view name() const { return {name_text.data(), name_length}; }
};

// Purpose: takes events from the background thread to the timeline's thread. One thread pushes, one pops;
// neither waits. When it is full, events are lost and counted. Guarded by its two atomic positions.
class EventRing {
 public:
  explicit EventRing(std::size_t capacity);  // a power of two

  // `event` without the unused part of its name. False when there was no room.
  bool push(const TraceEvent& event);
  // Gives up to all events there are to `take`; returns how many.
  template <class Take>
  std::size_t pop_all(Take take) {
    const std::uint64_t end = pushed_.load(std::memory_order_acquire);
    const std::uint64_t begin = popped_.load(std::memory_order_relaxed);
    for (std::uint64_t at = begin; at != end; ++at) {
      take(std::as_const(events_[at & mask_]));
      popped_.store(at + 1, std::memory_order_release);
    }
    return end - begin;
  }
  std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t mask_;
  std::unique_ptr<TraceEvent[]> events_;
  std::uint32_t lost_since_ = 0;  // of the pushing thread
  std::atomic<std::uint64_t> lost_{0};
  alignas(64) std::atomic<std::uint64_t> pushed_{0};
  alignas(64) std::atomic<std::uint64_t> popped_{0};
};

}  // namespace rueda
