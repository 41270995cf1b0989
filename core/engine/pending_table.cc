// SPDX-License-Identifier: Apache-2.0
#include "core/engine/pending_table.h"

#include <utility>

namespace rueda {

bool PendingTable::add(Entry&& entry) {
  auto [place, added] = entries_.try_emplace(entry.request().name);
  if (added) place->second = std::move(entry);
  return added;
}

std::optional<Entry> PendingTable::start(const std::string& name) {
  auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return std::exchange(found->second, std::nullopt);
}

std::vector<Entry> PendingTable::take_all() {
  std::vector<Entry> waiting;
  for (auto& [name, entry] : entries_) {
    if (entry) waiting.push_back(std::move(*entry));
  }
  entries_.clear();
  return waiting;
}

}  // namespace rueda
