// SPDX-License-Identifier: Apache-2.0
#include "tests/support/worlds/memory_network.h"

#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "core/base/error.h"

namespace rueda {

// Purpose: one rank's end for control messages. Owned by its background thread.
class MemoryTransport final : public Transport {
 public:
  MemoryTransport(MemoryNetwork& network, Rank rank) : network_(network), rank_(rank) {}

  void send(Rank to, Bytes bytes) override {
    {
      std::lock_guard lock(network_.mutex_);
      network_.mail_[to].push_back({rank_, std::move(bytes)});
    }
    network_.doorbell(to)->ring();
  }
  std::optional<Envelope> receive() override {
    std::lock_guard lock(network_.mutex_);
    std::deque<Envelope>& mail = network_.mail_[rank_];
    if (mail.empty()) return std::nullopt;
    Envelope envelope = std::move(mail.front());
    mail.pop_front();
    return envelope;
  }
  std::vector<Rank> lost(Time) override {
    std::lock_guard lock(network_.mutex_);
    std::vector<Rank> fresh;
    for (; told_ < network_.lost_.size(); ++told_) {
      const Rank cut_off = network_.lost_[told_];
      if (cut_off != rank_) fresh.push_back(cut_off);
      for (Rank other = 0; cut_off == rank_ && other < network_.size(); ++other) {
        if (other != rank_) fresh.push_back(other);
      }
    }
    return fresh;
  }
  bool rings_doorbell() const override { return true; }

 private:
  MemoryNetwork& network_;
  Rank rank_;
  std::size_t told_ = 0;
};

// Purpose: one rank's end for data. Owned by its background thread.
class MemoryLink final : public Link {
 public:
  MemoryLink(MemoryNetwork& network, Rank rank) : network_(network), rank_(rank) {}

  Ticket post_send(Rank peer, ConstBytes bytes, Tag tag) override {
    return post(rank_, peer, tag, &MemoryNetwork::Channel::sends, const_cast<std::byte*>(bytes.data()),
                bytes.size());
  }
  Ticket post_receive(Rank peer, MutableBytes bytes, Tag tag) override {
    return post(peer, rank_, tag, &MemoryNetwork::Channel::receives, bytes.data(), bytes.size());
  }
  std::optional<std::size_t> done(Ticket ticket) override {
    auto found = open_.find(ticket);
    RUEDA_ASSERT(found != open_.end());
    const std::int64_t moved = found->second->load();
    if (moved < 0) return std::nullopt;
    open_.erase(found);
    return static_cast<std::size_t>(moved);
  }
  void cancel(Ticket ticket) override {
    std::lock_guard lock(network_.mutex_);
    auto flag = open_.at(ticket);
    for (auto& [key, channel] : network_.channels_) {
      std::erase_if(channel.sends, [&](const auto& posted) { return posted.done == flag; });
      std::erase_if(channel.receives, [&](const auto& posted) { return posted.done == flag; });
    }
    open_.erase(ticket);
  }

 private:
  Ticket post(Rank from, Rank to, Tag tag, std::deque<MemoryNetwork::Posted> MemoryNetwork::Channel::*side,
              std::byte* data, std::size_t size) {
    auto flag = std::make_shared<std::atomic<std::int64_t>>(-1);
    open_[next_] = flag;
    std::lock_guard lock(network_.mutex_);
    MemoryNetwork::Channel& channel = network_.channels_[{from, to, tag}];
    (channel.*side).push_back({data, size, flag});
    network_.match(channel, from, to);
    return next_++;
  }

  MemoryNetwork& network_;
  Rank rank_;
  std::map<Ticket, std::shared_ptr<std::atomic<std::int64_t>>> open_;
  Ticket next_ = 1;
};

MemoryNetwork::MemoryNetwork(Rank size, std::size_t shm_slots, Rank ranks_per_host)
    : mail_(size), shm_slots_(shm_slots), least_missing_(size) {
  for (auto& least : least_missing_) least = std::numeric_limits<std::size_t>::max();
  for (Rank rank = 0; rank < size; ++rank)
    hosts_.push_back(ranks_per_host == 0 ? "memory" : "memory" + std::to_string(rank / ranks_per_host));
  for (Rank rank = 0; rank < size; ++rank) doorbells_.push_back(std::make_shared<EventCount>());
}

std::unique_ptr<Transport> MemoryNetwork::transport(Rank rank) {
  return std::make_unique<MemoryTransport>(*this, rank);
}
std::unique_ptr<Link> MemoryNetwork::link(Rank rank) { return std::make_unique<MemoryLink>(*this, rank); }

std::string MemoryNetwork::host(Rank rank) const { return hosts_[rank]; }

void MemoryNetwork::stand_on_hosts(const std::vector<Rank>& sizes) {
  hosts_.clear();
  for (std::size_t host = 0; host < sizes.size(); ++host)
    hosts_.insert(hosts_.end(), static_cast<std::size_t>(sizes[host]), "memory" + std::to_string(host));
}

std::shared_ptr<EventCount> MemoryNetwork::doorbell(Rank rank) {
  std::lock_guard lock(mutex_);
  return doorbells_[rank];
}

void MemoryNetwork::set_doorbell(Rank rank, std::shared_ptr<EventCount> doorbell) {
  std::lock_guard lock(mutex_);
  doorbells_[rank] = std::move(doorbell);
}

Memory MemoryNetwork::memory(Rank rank) {
  return Memory([this, rank](std::size_t bytes) {
    if (bytes >= least_missing_[rank]) throw std::bad_alloc();
    return HostBuffer(bytes);
  });
}

void MemoryNetwork::lose(Rank rank) {
  std::lock_guard lock(mutex_);
  lost_.push_back(rank);
  for (const auto& doorbell : doorbells_) doorbell->ring();
}

// Called with the mutex held.
void MemoryNetwork::match(Channel& channel, Rank from, Rank to) {
  while (!channel.sends.empty() && !channel.receives.empty()) {
    Posted& send = channel.sends.front();
    Posted& receive = channel.receives.front();
    RUEDA_ASSERT(send.size == receive.size || send.size == 0);
    if (send.size > 0) std::memcpy(receive.data, send.data, send.size);
    moved_bytes_ += send.size;
    const auto moved = static_cast<std::int64_t>(send.size);
    send.done->store(moved);
    receive.done->store(moved);
    doorbells_[from]->ring();
    doorbells_[to]->ring();
    channel.sends.pop_front();
    channel.receives.pop_front();
  }
}

}  // namespace rueda
