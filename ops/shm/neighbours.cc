// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/neighbours.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/log.h"
#include "core/control/message.h"

namespace rueda {
namespace {

// A descriptor that becomes readable when the process ends; close-on-exec by itself.
int open_process(std::int64_t process_id) {
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process_id), 0));
}

bool has_ended(int process) {
  pollfd look{process, POLLIN, 0};
  return poll(&look, 1, 0) > 0;
}

}  // namespace

Neighbours::Neighbours(Rank rank, std::shared_ptr<Segment> own, std::shared_ptr<Window> window)
    : rank_(rank), window_(std::move(window)), of_host_{rank} {
  if (!own) return;
  if (window_) own->contents().window = window_->file()->card();
  mapped_.emplace(rank, mapped(std::move(own), -1));
}

Neighbours::~Neighbours() {
  for (auto& [rank, neighbour] : mapped_) {
    if (neighbour.process >= 0) close(neighbour.process);
  }
}

std::string Neighbours::card() const {
  const auto own = mapped_.find(rank_);
  return own == mapped_.end() ? std::string() : to_bytes(own->second.segment->card());
}

void Neighbours::meet(const Welcome& welcome) {
  of_host_.clear();
  for (Rank rank = 0; rank < static_cast<Rank>(welcome.hosts.size()); ++rank) {
    if (welcome.hosts[rank] != welcome.hosts[rank_]) continue;
    of_host_.push_back(rank);
    if (rank == rank_ || !reaches(rank_) || welcome.cards[rank].empty()) continue;
    if (const Status status = open(rank, welcome.cards[rank]); !status.ok())
      log(LogLevel::info, "rank {} shares no memory with rank {}: {}", rank_, rank, status.message);
  }
}

// The process is the one that holds the segment: it had not ended when the segment had been opened through
// it.
Status Neighbours::open(Rank rank, const std::string& bytes) {
  const std::optional<Card> card = card_from(bytes);
  if (!card) return Status::backend_error(fmt::format("its card of {} bytes cannot be read", bytes.size()));
  const bool thread = card->process_id == getpid();
  const int process = thread ? -1 : open_process(card->process_id);
  if (!thread && process < 0) {
    return Status::backend_error(fmt::format("its process {} cannot be watched (pidfd_open: {})",
                                             card->process_id, std::strerror(errno)));
  }
  Segment::Result opened = Segment::open(*card);
  if (opened.status.ok() && (thread || !has_ended(process))) {
    mapped_.emplace(rank, mapped(std::move(opened.segment), process));
    return {};
  }
  if (process >= 0) close(process);
  return opened.status.ok() ? Status::backend_error("its process has ended") : opened.status;
}

Neighbours::Mapped Neighbours::mapped(std::shared_ptr<Segment> segment, int process) const {
  BellWord& word = segment->contents().bell;
  Bell bell(std::shared_ptr<BellWord>(segment, &word));
  const Card& card = segment->contents().window;
  SharedFile::Result window;
  if (card.size > 0 && window_) window = SharedFile::open(card, SharedFile::Pages::by_demand);
  if (!window.status.ok())
    log(LogLevel::info, "rank {} does not reach a window: {}", rank_, window.status.message);
  return {std::move(segment), std::move(window.file), std::move(bell), process};
}

std::vector<Rank> Neighbours::lost() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < std::chrono::milliseconds(50)) return {};
  looked_ = now;
  std::vector<Rank> fresh;
  for (auto& [rank, neighbour] : mapped_) {
    if (neighbour.process < 0 || !has_ended(neighbour.process)) continue;
    close(std::exchange(neighbour.process, -1));
    // Looked at after the process has ended: a rank that came to its end has said so before.
    if (neighbour.segment->contents().ended.load() == 0) fresh.push_back(rank);
  }
  return fresh;
}

void Neighbours::end() {
  if (reaches(rank_)) contents(rank_).ended.store(1);
}

}  // namespace rueda
