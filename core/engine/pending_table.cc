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

void PendingTable::add(Entry&& entry) {
  const SharedRequest request = entry.shared_request;
  if (request->operation == Operation::join) joined_.insert(request->process_set);
  const bool added = places_.try_emplace(key_view_of(*request), request, std::move(entry)).second;
  RUEDA_ASSERT(added);
}

const Flight* PendingTable::flight(KeyView key) const {
  const auto found = places_.find(key);
  return found == places_.end() || !found->second.entry ? nullptr : &found->second.entry->flight;
}

bool PendingTable::start(const Request& called, std::vector<Entry>& started) {
  auto found = places_.find(key_view_of(called));
  if (found == places_.end() || !found->second.entry) return false;
  // A rank that has joined may have one of a group in flight under the name of what others submit alone.
  if (found->second.request->follows != called.follows) return false;
  started.push_back(std::move(*found->second.entry));
  found->second.entry.reset();
  return true;
}

void PendingTable::start_group(const Request& called, std::vector<Entry>& started) {
  if (!start(called, started)) return;
  const SharedRequest first = started.back().shared_request;
  for (const Request& other : first->others) start(other, started);
}

void PendingTable::finish(KeyView key) {
  if (auto found = places_.find(key); found != places_.end()) places_.erase(found);
}

std::vector<Entry> PendingTable::take_all() {
  std::vector<Entry> waiting;
  for (auto& [key, place] : places_) {
    if (place.entry) waiting.push_back(std::move(*place.entry));
  }
  places_.clear();
  return waiting;
}

std::vector<Entry> PendingTable::take_all(ProcessSetId set) {
  std::vector<Entry> waiting;
  for (auto place = places_.begin(); place != places_.end();) {
    std::optional<Entry>& entry = place->second.entry;
    const bool taken = place->first.process_set == set && entry;
    if (taken) waiting.push_back(std::move(*entry));
    place = taken ? places_.erase(place) : std::next(place);
  }
  return waiting;
}

std::size_t of_one_group(std::span<const Entry> entries) {
  return 1 + entries.front().request().others.size();
}

}  // namespace rueda
