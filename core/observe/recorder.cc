// SPDX-License-Identifier: Apache-2.0
#include "core/observe/recorder.h"

#include <unistd.h>

#include <cstring>
#include <numeric>

#include "core/base/error.h"

namespace rueda {
namespace {

using Page = RecorderPage;

// Stores `text` from word `first` on, as much as `most` bytes allow; gives the length.
template <class Store>
std::uint64_t put_text(const Store& store, std::size_t first, std::string_view text, std::size_t most) {
  const std::size_t length = std::min(text.size(), most);
  const std::size_t rest = length % 8, whole = length - rest;
  std::uint64_t word = 0;
  for (std::size_t at = 0; at < whole; at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    store(first + at / 8, word);
  }
  if (rest == 0) return length;
  word = 0;
  std::memcpy(&word, text.data() + whole, rest);
  store(first + whole / 8, word);
  return length;
}

}  // namespace

Recorder::Recorder() : own_(std::make_shared<RecorderPage>()), page_(own_.get()) {
  std::iota(free_.begin(), free_.end(), std::uint16_t{0});
  own_->process_id = static_cast<std::uint64_t>(getpid());
  doing("starting");
}

void Recorder::use_page(std::shared_ptr<RecorderPage> page) {
  RUEDA_ASSERT(submitted_ == 0 && given_ == nullptr);
  // Word by word, and what says that it is a page last: a peer may be looking already.
  constexpr std::size_t kWords = sizeof(RecorderPage) / sizeof(std::uint64_t);
  const auto* from = reinterpret_cast<const std::uint64_t*>(own_.get());
  auto* to = reinterpret_cast<std::uint64_t*>(page.get());
  static_assert(offsetof(RecorderPage, magic) == 0);
  for (std::size_t i = kWords; i-- > 0;) store_word(to[i], load_word(from[i]));
  given_ = std::move(page);
  page_.store(given_.get());
}

void Recorder::identify(Rank rank) { store_word(page_.load()->rank, static_cast<std::uint64_t>(rank)); }

int Recorder::take_slot() {
  if (free_count_ == 0) return -1;
  const int slot = free_[first_free_];
  first_free_ = (first_free_ + 1) % free_.size();
  --free_count_;
  return slot;
}

Flight Recorder::submitted(const std::string& name, std::string_view operation, std::uint64_t bytes) {
  const Flight flight{submitted_++, bytes, monotonic_ns(), take_slot()};
  if (flight.slot >= 0) {
    name_slot(name, operation, flight);
  } else {
    count_unrecorded(1);
  }
  store_word(page_.load(std::memory_order_relaxed)->submitted_count, submitted_);
  return flight;
}

void Recorder::started(const Flight& flight, std::int64_t now_ns) {
  set_state(flight.slot, RecordedState::started, Page::started, now_ns);
}

void Recorder::completed(const Flight& flight, bool ok) {
  if (flight.slot >= 0) {
    set_state(flight.slot, ok ? RecordedState::completed : RecordedState::failed, Page::ended,
              monotonic_ns());
    free_[(first_free_ + free_count_) % free_.size()] = static_cast<std::uint16_t>(flight.slot);
    ++free_count_;
  } else {
    count_unrecorded(-1);
  }
}

void Recorder::name_slot(const std::string& name, std::string_view operation, const Flight& flight) {
  const std::string shortened = name.size() > Page::kNameBytes ? short_name(name, Page::kNameBytes) : "";
  page_.load(std::memory_order_relaxed)->slots[static_cast<std::size_t>(flight.slot)].write([&](auto store) {
    store(Page::ticket, flight.ticket);
    store(Page::submitted, static_cast<std::uint64_t>(flight.submitted_ns));
    store(Page::started, 0);
    store(Page::ended, 0);
    store(Page::bytes, flight.bytes);
    const std::uint64_t operation_length = put_text(store, Page::operation, operation, Page::kOperationBytes);
    const std::uint64_t name_length =
        put_text(store, Page::name, shortened.empty() ? name : shortened, Page::kNameBytes);
    store(Page::kind,
          static_cast<std::uint64_t>(RecordedState::submitted) | operation_length << 8 | name_length << 16);
  });
}

void Recorder::set_state(int slot, RecordedState state, RecorderPage::Word time, std::int64_t now) {
  if (slot < 0) return;
  Page::Slot& block = page_.load(std::memory_order_relaxed)->slots[static_cast<std::size_t>(slot)];
  const std::uint64_t kind =
      (load_word(block.words[Page::kind]) & ~std::uint64_t{0xff}) | static_cast<std::uint64_t>(state);
  block.write([&](auto store) {
    store(Page::kind, kind);
    store(time, static_cast<std::uint64_t>(now));
  });
}

void Recorder::count_unrecorded(int change) {
  std::uint64_t& count = page_.load(std::memory_order_relaxed)->unrecorded;
  store_word(count, load_word(count) + static_cast<std::uint64_t>(static_cast<std::int64_t>(change)));
}

void Recorder::doing(std::string_view activity) {
  if (activity.data() == activity_.data() && activity.size() == activity_.size()) return;
  activity_ = activity;
  page_.load(std::memory_order_relaxed)->activity.write([&](auto store) {
    for (std::size_t at = 0; at < Page::kActivityBytes; at += 8) {
      std::uint64_t word = 0;
      if (at < activity.size()) {
        std::memcpy(&word, activity.data() + at, std::min<std::size_t>(8, activity.size() - at));
      }
      store(at / 8, word);
    }
  });
}

std::string Recorder::summary() const {
  const std::optional<Recording> recording = read_recording(page());
  return recording ? summarize(*recording, monotonic_ns()) : "has no record";
}

std::string Recorder::report() const {
  std::string text;
  for (const std::string& line : read_recorder_page(page())) text += line + "\n";
  return text;
}

}  // namespace rueda
