// SPDX-License-Identifier: Apache-2.0
#include "core/engine/pending_table.h"

#include <utility>

namespace rueda {

bool PendingTable::add(Entry&& entry) {
  auto [place, added] = entries_.try_emplace(key_of(entry.request()));
  if (added) place->second = std::move(entry);
  return added;
}

std::optional<Entry> PendingTable::start(KeyView key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return std::exchange(found->second, std::nullopt);
}

void PendingTable::finish(KeyView key) {
  if (auto found = entries_.find(key); found != entries_.end()) entries_.erase(found);
}

std::vector<Entry> PendingTable::take_all() {
  std::vector<Entry> waiting;
  for (auto& [key, entry] : entries_) {
    if (entry) waiting.push_back(std::move(*entry));
  }
  entries_.clear();
  return waiting;
}

std::vector<Entry> PendingTable::take_all(ProcessSetId set) {
  std::vector<Entry> waiting;
  for (auto place = entries_.begin(); place != entries_.end();) {
    const bool taken = place->first.process_set == set && place->second;
    if (taken) waiting.push_back(std::move(*place->second));
    place = taken ? entries_.erase(place) : std::next(place);
  }
  return waiting;
}

}  // namespace rueda
