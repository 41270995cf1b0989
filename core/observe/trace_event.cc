// SPDX-License-Identifier: Apache-2.0
#include "core/observe/trace_event.h"

#include <cstring>

#include "core/base/error.h"
#include "core/observe/recorder_page.h"

namespace rueda {

void TraceEvent::set_name(std::string_view text) {
  if (text.size() > kNameBytes) {
    set_name(short_name(text, kNameBytes));
    return;
  }
  text.copy(name_text.data(), text.size());  // may be empty, without an address
  name_length = static_cast<std::uint8_t>(text.size());
}

EventRing::EventRing(std::size_t capacity)
    : mask_(capacity - 1), events_(std::make_unique_for_overwrite<TraceEvent[]>(capacity)) {
  RUEDA_ASSERT(capacity != 0 && (capacity & mask_) == 0);
}

bool EventRing::push(const TraceEvent& event) {
  const std::uint64_t at = pushed_.load(std::memory_order_relaxed);
  if (at - popped_.load(std::memory_order_acquire) > mask_) {
    ++lost_since_;
    lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return false;
  }
  TraceEvent& slot = events_[at & mask_];
  static_assert(std::is_trivially_copyable_v<TraceEvent>);
  std::memcpy(static_cast<void*>(&slot), &event, offsetof(TraceEvent, name_text) + event.name_length);
  slot.lost_before = std::exchange(lost_since_, 0);
  pushed_.store(at + 1, std::memory_order_release);
  return true;
}

}  // namespace rueda
