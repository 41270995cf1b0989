// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/worker_slots.h"

#include <algorithm>

namespace rueda {

WorkerSlots::WorkerSlots(const std::vector<HostRanks>& hosts, const std::vector<HostRanks>& slots,
                         int ranks) {
  for (const HostRanks& host : slots) {
    const auto found = std::ranges::find(hosts, host.host, &HostRanks::host);
    if (found == hosts.end()) continue;
    for (const Place& place : host.places) {
      Slot& fresh = slots_.emplace_back(
          Slot{.host = static_cast<int>(found - hosts.begin()), .local_rank = place.local_rank});
      if (place.rank < ranks) fresh.worker = place.rank;
    }
  }
}

void WorkerSlots::open(int host) {
  for (Slot& slot : slots_)
    if (slot.host == host) slot.usable = true;
}

int WorkerSlots::taken() const {
  return static_cast<int>(
      std::ranges::count_if(slots_, [](const Slot& slot) { return slot.worker.has_value(); }));
}

WorkerSlots::Slot* WorkerSlots::free_one() {
  const auto found =
      std::ranges::find_if(slots_, [](const Slot& slot) { return slot.usable && !slot.worker; });
  return found == slots_.end() ? nullptr : &*found;
}

void WorkerSlots::free_slot_of(Worker worker, bool took_part) {
  const auto found = std::ranges::find(slots_, std::optional(worker), &Slot::worker);
  if (found == slots_.end()) return;
  found->worker.reset();
  found->usable &= took_part;
}

void WorkerSlots::lose_host(int host) {
  for (Slot& slot : slots_) {
    if (slot.host != host) continue;
    slot.worker.reset();
    slot.usable = false;
  }
}

}  // namespace rueda
