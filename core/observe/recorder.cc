// SPDX-License-Identifier: Apache-2.0
#include "core/observe/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/error.h"

namespace rueda {
namespace {

using Page = RecorderPage;

// Half a word for each dimension; false where one does not fit.
template <class Store>
bool put_shape(const Store& store, const Shape& shape) {
  std::array<std::uint64_t, Page::kDimensions> dimensions{};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::uint64_t& at = dimensions[std::min(i, Page::kDimensions - 1)];
    at = i < Page::kDimensions ? static_cast<std::uint64_t>(shape[i])
                               : at * static_cast<std::uint64_t>(shape[i]);
  }
  bool fits = true;
  for (std::size_t i = 0; i < Page::kDimensions; i += 2) {
    fits = fits && (dimensions[i] | dimensions[i + 1]) >> 32 == 0;
    store(Page::dimensions + i / 2, dimensions[i] | dimensions[i + 1] << 32);
  }
  return fits;
}

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

void Recorder::identify(Rank rank, Rank size, std::uint64_t job) {
  Page& page = *page_.load();
  store_word(page.rank, static_cast<std::uint64_t>(rank));
  store_word(page.job, job);
  store_word(page.size, static_cast<std::uint64_t>(size));
}

// A set more than the page has room for stays unknown to its readers.
void Recorder::note_set(ProcessSetId id, const RankSet& members) {
  std::array<Page::Set, Page::kSets>& sets = page_.load()->sets;
  const auto find = [&](std::uint64_t wanted) {
    return std::ranges::find_if(
        sets, [&](const Page::Set& set) { return load_word(set.words[Page::set_id]) == wanted; });
  };
  auto set = find(id);
  if (set == sets.end()) set = find(0);
  if (set == sets.end()) return;
  std::array<std::uint64_t, Page::kRanksOfSet / 64> bits{};
  for (const auto& [first, end] : members.ranges())
    for (Rank rank = first; rank < std::min(end, Page::kRanksOfSet); ++rank)
      bits[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64);
  set->write([&](auto store) {
    store(Page::set_id, members.empty() ? 0 : id);
    store(Page::set_count, static_cast<std::uint64_t>(members.count()));
    for (std::size_t i = 0; i < bits.size(); ++i) store(Page::set_ranks + i, bits[i]);
  });
}

void Recorder::end_in_order() { store_word(page_.load()->ended_in_order, 1); }

int Recorder::take_slot() {
  if (free_count_ == 0) return -1;
  const int slot = free_[first_free_];
  first_free_ = (first_free_ + 1) % free_.size();
  --free_count_;
  forget(load_word(
      page_.load(std::memory_order_relaxed)->slots[static_cast<std::size_t>(slot)].words[Page::plan]));
  return slot;
}

void Recorder::forget(std::uint64_t plan) {
  std::uint64_t& forgotten = page_.load(std::memory_order_relaxed)->forgotten_plan;
  if (plan > load_word(forgotten)) store_word(forgotten, plan);
}

Flight Recorder::submitted(const std::string& name, const Request& request, std::int64_t now_ns) {
  const Flight flight{submitted_++, static_cast<std::uint64_t>(bytes_of(request)), now_ns, take_slot()};
  if (flight.slot >= 0) {
    name_slot(name, request, flight);
  } else {
    count_unrecorded(1);
  }
  store_word(page_.load(std::memory_order_relaxed)->submitted_count, submitted_);
  return flight;
}

void Recorder::planned(const Flight& flight, std::uint64_t plan) {
  if (flight.slot < 0) return forget(plan);
  page_.load(std::memory_order_relaxed)->slots[static_cast<std::size_t>(flight.slot)].write([&](auto store) {
    store(Page::plan, plan);
  });
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

void Recorder::name_slot(const std::string& name, const Request& request, const Flight& flight) {
  const std::string shortened = name.size() > Page::kNameBytes ? short_name(name, Page::kNameBytes) : "";
  page_.load(std::memory_order_relaxed)->slots[static_cast<std::size_t>(flight.slot)].write([&](auto store) {
    store(Page::ticket, flight.ticket);
    store(Page::submitted, static_cast<std::uint64_t>(flight.submitted_ns));
    store(Page::started, 0);
    store(Page::ended, 0);
    store(Page::bytes, flight.bytes);
    store(Page::plan, 0);
    store(Page::process_set, request.process_set | static_cast<std::uint64_t>(request.root) << 32);
    const bool fits = put_shape(store, request.shape);
    const std::uint64_t name_length =
        put_text(store, Page::name, shortened.empty() ? name : shortened, Page::kNameBytes);
    const std::uint64_t dimensions = fits ? std::min(request.shape.size(), Page::kDimensions) : 0xff;
    store(Page::kind, static_cast<std::uint64_t>(RecordedState::submitted) |
                          static_cast<std::uint64_t>(request.operation) << 8 | name_length << 16 |
                          static_cast<std::uint64_t>(request.dtype) << 24 | dimensions << 32);
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
