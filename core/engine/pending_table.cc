// SPDX-License-Identifier: Apache-2.0
#include "core/engine/pending_table.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace rueda {

std::string PendingTable::objection_to(const Request& request, bool known) const {
  if (!known) return "uses a process set that was removed, or is not of this job.";
  if (joined(request.process_set))
    return "has joined, and submits nothing until every rank has. Wait for join() first.";
  if (contains(key_view_of(request))) {
    return "submitted this name while an operation of that name is in flight. Wait for it first, or use "
           "another "
           "name.";
  }
  return {};
}

bool PendingTable::contains(KeyView key) const {
  const auto found = places_.find(key);
  return found != places_.end() && found->second.reserved;
}

PendingPlace& PendingTable::place_of(KeyView key) {
  constexpr std::size_t kSpare = 1024;
  const auto found = places_.find(key);
  if (found != places_.end()) return found->second;
  if (places_.size() > 2 * most_ + kSpare) {
    std::erase_if(places_, [](const auto& each) { return !each.second.reserved; });
    most_ = reserved_;
  }
  return places_[{key.process_set, std::string(key.name)}];
}

void PendingTable::add(Entry&& entry) {
  const Request& request = entry.request();
  if (request.operation == Operation::join) joined_.insert(request.process_set);
  PendingPlace& place = place_of(key_view_of(request));
  RUEDA_ASSERT(!place.reserved);
  place.reserved = true;
  most_ = std::max(most_, ++reserved_);
  entry.place = &place;
  place.waiting.emplace(std::move(entry));
}

const Entry* PendingTable::waiting(KeyView key) const {
  const auto found = places_.find(key);
  return found == places_.end() || !found->second.waiting ? nullptr : &*found->second.waiting;
}

const Entry* PendingTable::waiting_for(const Request& called) const {
  const Entry* entry = waiting(key_view_of(called));
  return entry != nullptr && entry->request().follows == called.follows ? entry : nullptr;
}

bool PendingTable::start(const Request& called, std::vector<Entry>& started) {
  const Entry* entry = waiting_for(called);
  if (entry == nullptr) return false;
  take(*entry->place, started);
  return true;
}

void PendingTable::take(PendingPlace& place, std::vector<Entry>& taken) {
  if (!place.waiting) return;
  taken.push_back(std::move(*place.waiting));
  place.waiting.reset();
}

void PendingTable::start_group(const Request& called, std::vector<Entry>& started) {
  if (!start(called, started)) return;
  const SharedRequest first = started.back().shared_request;
  for (const Request& other : first->others) start(other, started);
}

void PendingTable::finish(Entry& entry) {
  RUEDA_ASSERT(entry.place != nullptr && entry.place->reserved);
  std::exchange(entry.place, nullptr)->reserved = false;
  --reserved_;
}

std::vector<Entry> PendingTable::take_all() {
  std::vector<Entry> waiting;
  for (auto& [key, place] : places_) take(place, waiting);
  return waiting;
}

std::vector<Entry> PendingTable::take_all(ProcessSetId set) {
  std::vector<Entry> waiting;
  for (auto& [key, place] : places_) {
    if (key.process_set == set) take(place, waiting);
  }
  return waiting;
}

std::size_t of_one_group(std::span<const Entry> entries) {
  return 1 + entries.front().request().others.size();
}

}  // namespace rueda
