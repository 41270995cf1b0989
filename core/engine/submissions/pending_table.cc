// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/pending_table.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace rueda {

std::string PendingTable::problem_in(Entry& entry, bool known) {
  const Request& request = entry.request();
  if (!known) return "uses a process set that was removed, or is not of this job.";
  if (joined(request.process_set))
    return "has joined, and submits nothing until every rank has. Wait for join() first.";
  auto found = names_.find(key_view_of(request));
  if (found == names_.end()) found = names_.try_emplace(key_of(request)).first;
  entry.pending_name = &found->second;
  RUEDA_ASSERT(!entry.pending_name->reserved);  // see NamesInFlight
  return {};
}

bool PendingTable::contains(KeyView key) const {
  const auto found = names_.find(key);
  return found != names_.end() && found->second.reserved;
}

void PendingTable::forget_unused() {
  constexpr std::size_t kSpare = 1024;
  if (names_.size() <= 2 * most_ + kSpare) return;
  std::erase_if(names_, [](const auto& each) { return !each.second.reserved; });
  most_ = reserved_;
}

void PendingTable::add(Entry&& entry) {
  const Request& request = entry.request();
  if (request.operation == Operation::join) joined_.insert(request.process_set);
  RUEDA_ASSERT(entry.pending_name != nullptr && !entry.pending_name->reserved);
  PendingName& name = *entry.pending_name;
  name.reserved = true;
  name.follows = request.follows;
  most_ = std::max(most_, ++reserved_);
  name.waiting.emplace(std::move(entry));
}

std::string PendingTable::first_of_group(KeyView key) const {
  const auto found = names_.find(key);
  return found != names_.end() && found->second.reserved ? found->second.follows : std::string();
}

void PendingTable::tell_missing(KeyView key, const std::string& words) {
  const auto found = names_.find(key);
  if (found != names_.end() && found->second.waiting) found->second.waiting->handle->missing.tell(words);
}

// A rank that has joined may have a group in flight of which one has the name of something else that the
// others go on with.
bool PendingTable::start(const Request& called, std::vector<Entry>& started) {
  const auto found = names_.find(key_view_of(called));
  if (found == names_.end()) return false;
  PendingName& name = found->second;
  if (!name.waiting || name.waiting->request().follows != called.follows) return false;
  started.push_back(std::move(*name.waiting));
  name.waiting.reset();
  return true;
}

void PendingTable::start_group(const Request& called, std::vector<Entry>& started) {
  if (!start(called, started)) return;
  const SharedRequest first = started.back().shared_request;
  for (const Request& other : first->others) start(other, started);
}

void PendingTable::finish(Entry& entry) {
  RUEDA_ASSERT(entry.pending_name != nullptr && entry.pending_name->reserved);
  std::exchange(entry.pending_name, nullptr)->reserved = false;
  --reserved_;
}

std::vector<Entry> PendingTable::take_all(std::optional<ProcessSetId> set) {
  std::vector<Entry> waiting;
  for (auto& [key, name] : names_) {
    if (!name.waiting || (set && key.process_set != *set)) continue;
    waiting.push_back(std::move(*name.waiting));
    name.waiting.reset();
  }
  return waiting;
}

std::size_t of_one_group(std::span<const Entry> entries) {
  return 1 + entries.front().request().others.size();
}

}  // namespace rueda
