// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/names_in_flight.h"

#include <fmt/format.h>

#include <utility>

namespace rueda {

Status NamesInFlight::take(std::span<Entry> entries) {
  if (slots_.size() > most_slots_) forget_unused();
  for (Entry& entry : entries) {
    const Request& request = entry.request();
    auto found = slots_.find(key_view_of(request));
    if (found == slots_.end()) found = slots_.try_emplace(key_of(request)).first;
    if (found->second.exchange(true, std::memory_order_acquire)) {
      for (Entry& taken : entries) free(taken);
      return Status::invalid_argument(
          fmt::format("{}: an operation of that name is in flight on this rank. Wait for it first, or use "
                      "another name.",
                      title(request)));
    }
    entry.name_taken = &found->second;
  }
  return {};
}

void NamesInFlight::free(Entry& entry) {
  if (std::atomic<bool>* taken = std::exchange(entry.name_taken, nullptr))
    taken->store(false, std::memory_order_release);
}

void NamesInFlight::forget_unused() {
  std::erase_if(slots_, [](const auto& each) { return !each.second.load(std::memory_order_acquire); });
  most_slots_ = 2 * slots_.size() + kSpare;
}

}  // namespace rueda
