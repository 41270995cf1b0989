// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/local_peers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/log.h"
#include "core/control/messages/control_message.h"

namespace rueda {
namespace {

// Ranks that this one does not reach may still ask it for as long.
constexpr std::chrono::seconds kDoorsOpen(30);

// A descriptor that becomes readable when the process ends; close-on-exec by itself.
int open_process(std::int64_t process_id) {
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process_id), 0));
}

bool has_ended(int process) {
  pollfd look{process, POLLIN, 0};
  return poll(&look, 1, 0) > 0;
}

}  // namespace

LocalPeers::LocalPeers(Rank rank, std::shared_ptr<Segment> own, std::shared_ptr<Window> window)
    : rank_(rank), window_(std::move(window)), of_host_{rank} {
  if (!own) return;
  doors_.emplace_back(own->file());
  if (window_) doors_.emplace_back(window_->file());
  if (window_) own->contents().window = window_->file()->handle();
  mapped_.emplace(rank, mapped(std::move(own), {}));
}

LocalPeers::~LocalPeers() {
  for (auto& [rank, peer] : mapped_) stop_watching(peer.process);
}

std::string LocalPeers::peer_info() const {
  const auto own = mapped_.find(rank_);
  return own == mapped_.end() ? std::string() : to_bytes(own->second.segment->handle());
}

void LocalPeers::connect(const Welcome& welcome) {
  of_host_.clear();
  for (Rank rank = 0; rank < static_cast<Rank>(welcome.hosts.size()); ++rank) {
    if (welcome.hosts[rank] != welcome.hosts[rank_]) continue;
    of_host_.push_back(rank);
    if (rank == rank_ || !reaches(rank_) || welcome.peer_infos[rank].empty()) continue;
    if (const Status status = open(rank, welcome.peer_infos[rank]); !status.ok())
      log(LogLevel::info, "rank {} shares no memory with rank {}: {}", rank_, rank, status.message);
  }
  if (reaches(rank_)) contents(rank_).connected.store(1);
  doors_until_ = clock_now() + kDoorsOpen;
}

Status LocalPeers::claim_wide_areas() {
  const auto own = mapped_.find(rank_);
  return own == mapped_.end() ? Status() : own->second.segment->claim_wide_areas();
}

Status LocalPeers::open(Rank rank, const std::string& bytes) {
  const std::optional<SegmentHandle> handle = segment_handle_from(bytes);
  if (!handle)
    return Status::backend_error(fmt::format("its handle of {} bytes cannot be read", bytes.size()));
  Reached reached = reach(*handle);
  Segment::Result opened = Segment::in(std::move(reached.opened));
  if (!opened.segment) return opened.status;
  // A rank that is a thread of this process needs no watching.
  if (opened.segment->file()->made_here()) {
    reached.process.close();
  } else if (reached.process.number() < 0) {
    return Status::backend_error("its process cannot be watched (pidfd_open)");
  } else if (has_ended(reached.process.number())) {
    return Status::backend_error("its process has ended");
  }
  Mapped& peer =
      mapped_.emplace(rank, mapped(std::move(opened.segment), std::move(reached.process))).first->second;
  if (reached.by_door) map_window(peer);  // now that all are here to open theirs
  if (peer.process) watch(peer.process);
  return {};
}

// A process that has ended meanwhile is heard of at once.
void LocalPeers::watch(const Descriptor& process) {
  if (!watch_) {
    watch_ = ProcessWatch::of_this_process();
    ends_ = std::make_shared<ProcessWatch::Listener>(doorbell(rank_));
  }
  watch_->add(process.number(), ends_);
}

void LocalPeers::stop_watching(Descriptor& process) {
  if (process && watch_) watch_->remove(process.number());
  process.close();
}

const PeerGroup* LocalPeers::group_of(std::span<const Rank> members) {
  const auto [found, fresh] = groups_.try_emplace(std::vector(members.begin(), members.end()));
  PeerGroup& peers = found->second;
  if (!fresh) return &peers;
  bool windows = window_ != nullptr;
  for (const Rank member : members) {
    const auto mapped = mapped_.find(member);
    if (mapped == mapped_.end()) {
      groups_.erase(found);
      return nullptr;
    }
    if (member == rank_) peers.index = peers.size();
    Mapped& each = mapped->second;
    SegmentContents& contents = each.segment->contents();
    peers.members.push_back({member, &contents, &each.doorbell, &each.window});
    windows &= contents.window.size > 0;
  }
  if (!windows) return &peers;
  peers.own_window = window_.get();
  peers.map_windows = [this, &peers] { return map_windows(peers); };
  return &peers;
}

// The process is the one that holds the memory: it is watched before that is opened through it, and has not
// ended afterwards.
LocalPeers::Reached LocalPeers::reach(const SegmentHandle& handle) {
  Reached reached{Descriptor(open_process(handle.process_id)), {}};
  reached.opened = SharedFile::open(handle, SharedFile::Pages::by_demand, reached.process.number());
  if (reached.opened.file) return reached;
  Reached other = reach_by_door(handle);
  return other.by_door ? std::move(other) : std::move(reached);
}

LocalPeers::Reached LocalPeers::reach_by_door(const SegmentHandle& handle) {
  const FdPassing::Given given = FdPassing::ask(handle, std::chrono::seconds(2), [this] { serve_doors(); });
  if (given.file < 0) return {};
  return {Descriptor(open_process(given.process_id)),
          SharedFile::open(handle, given.file, SharedFile::Pages::by_demand), true};
}

void LocalPeers::serve_doors() {
  for (FdPassing& door : doors_) door.serve();
}

// Nobody comes in after the start of the job.
void LocalPeers::close_doors(Time now) {
  const bool all_have_connected =
      mapped_.size() == of_host_.size() && std::ranges::all_of(mapped_, [](const auto& peer) {
        return peer.second.segment->contents().connected != 0;
      });
  if (all_have_connected || now > doors_until_) doors_.clear();
}

LocalPeers::Mapped LocalPeers::mapped(std::shared_ptr<Segment> segment, Descriptor process) {
  EventCountWord& word = segment->contents().doorbell;
  EventCount doorbell(std::shared_ptr<EventCountWord>(segment, &word));
  return {std::move(segment), nullptr, std::move(doorbell), std::move(process)};
}

bool LocalPeers::map_window(Mapped& peer) {
  const SegmentHandle handle = peer.segment->contents().window;
  if (peer.window || handle.size == 0 || !window_) return peer.window != nullptr;
  SharedFile::Result opened = SharedFile::open(handle, SharedFile::Pages::by_demand, peer.process.number());
  if (!opened.file) {
    Reached by_door = reach_by_door(handle);
    if (by_door.by_door) opened = std::move(by_door.opened);
  }
  peer.window = std::move(opened.file);
  if (!peer.window)
    log(LogLevel::warning,
        "rank {} cannot map the window of another rank of its host, so tensors are not reduced in place: {}",
        rank_, opened.status.message);
  return peer.window != nullptr;
}

// Stops at the first window that cannot be mapped.
bool LocalPeers::map_windows(PeerGroup& peers) {
  for (const PeerGroup::Member& member : peers.members) {
    if (map_window(mapped_.at(member.rank))) continue;
    peers.own_window = nullptr;
    return false;
  }
  return true;
}

std::vector<Rank> LocalPeers::lost(Time now) {
  const bool heard = has_news();
  if (!heard && now - looked_ < std::chrono::milliseconds(50)) return {};
  if (heard) ends_->heard.store(false);  // before the look
  looked_ = now;
  serve_doors();
  if (!doors_.empty()) close_doors(now);
  std::vector<pollfd> looks;
  for (const auto& [rank, neighbour] : mapped_) looks.push_back({neighbour.process.number(), POLLIN, 0});
  std::vector<Rank> fresh;
  if (poll(looks.data(), looks.size(), 0) <= 0) return fresh;
  for (auto look = looks.begin(); auto& [rank, neighbour] : mapped_) {
    if ((look++)->revents == 0) continue;
    stop_watching(neighbour.process);
    // Looked at after the process has ended: a rank that came to its end has said so before.
    if (neighbour.segment->contents().ended.load() == 0) fresh.push_back(rank);
  }
  return fresh;
}

void LocalPeers::end() {
  if (reaches(rank_)) contents(rank_).ended.store(1);
}

}  // namespace rueda
