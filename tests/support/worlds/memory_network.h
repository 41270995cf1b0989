// SPDX-License-Identifier: Apache-2.0
// A network inside one process: Transport and Link between threads.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "core/control/messages/transport.h"
#include "core/engine/wait/event_count.h"
#include "ops/buffers/work_memory.h"
#include "ops/link/link.h"

namespace rueda {

// Purpose: connects ranks that are threads. Shared by all of them; guarded by its mutex; outlives their
// Runtimes.
class MemoryNetwork {
 public:
  // With `shm_slots` the ranks share memory too, and one-shots use so many slots.
  // They are on one host, or on hosts of `ranks_per_host` each.
  explicit MemoryNetwork(Rank size, std::size_t shm_slots = 0, Rank ranks_per_host = 0);

  // Of so many ranks each, instead.
  void stand_on_hosts(const std::vector<Rank>& sizes);

  std::unique_ptr<Transport> transport(Rank rank);
  std::unique_ptr<Link> link(Rank rank);
  std::shared_ptr<EventCount> doorbell(Rank rank);
  void set_doorbell(Rank rank, std::shared_ptr<EventCount> doorbell);
  std::size_t shm_slots() const { return shm_slots_; }
  std::string host(Rank rank) const;
  Rank size() const { return static_cast<Rank>(mail_.size()); }

  // From now on every other rank is told that `rank` died, and `rank`, should it live, that all others did.
  void lose(Rank rank);
  // From now on buffers of `least` bytes and more cannot be had on that rank.
  void take_memory_from(Rank rank, std::size_t least) { least_missing_[rank] = least; }
  Memory memory(Rank rank);
  // Bytes of data that have moved over all links.
  std::uint64_t moved_bytes() const { return moved_bytes_.load(); }

 private:
  friend class MemoryTransport;
  friend class MemoryLink;

  // One message that waits for its other side.
  struct Posted {
    std::byte* data = nullptr;  // read if it is a send, written if a receive
    std::size_t size = 0;
    std::shared_ptr<std::atomic<std::int64_t>> done;  // bytes that have moved; -1: not yet
  };
  struct Channel {
    std::deque<Posted> sends;
    std::deque<Posted> receives;
  };
  using Key = std::tuple<Rank, Rank, Tag>;  // from, to

  void match(Channel& channel, Rank from, Rank to);

  std::mutex mutex_;
  std::vector<std::deque<Envelope>> mail_;
  std::map<Key, Channel> channels_;
  std::vector<Rank> lost_;
  std::vector<std::shared_ptr<EventCount>> doorbells_;
  const std::size_t shm_slots_;
  std::vector<std::string> hosts_;                       // by rank
  std::vector<std::atomic<std::size_t>> least_missing_;  // by rank
  std::atomic<std::uint64_t> moved_bytes_{0};
};

}  // namespace rueda
