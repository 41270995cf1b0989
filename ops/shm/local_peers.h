// SPDX-License-Identifier: Apache-2.0
// The ranks of this host, as far as memory can be shared with them.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/system/descriptor.h"
#include "core/base/time.h"
#include "ops/shm/memory/fd_passing.h"
#include "ops/shm/memory/segment.h"
#include "ops/shm/memory/window.h"
#include "ops/shm/peer_group.h"
#include "ops/shm/process_watch.h"
#include "rueda/types.h"

namespace rueda {

struct Welcome;

// Purpose: the segment of this rank and those of its neighbours, for the transport and the backend, which
// share this object. Made by the thread that makes RuntimeComponents, then owned by the background thread.
class LocalPeers {
 public:
  // Without a segment of its own (shared memory is off, or there is no room for it) a rank reaches nobody,
  // and nobody reaches it.
  LocalPeers(Rank rank, std::shared_ptr<Segment> own, std::shared_ptr<Window> window = nullptr);
  ~LocalPeers();

  // For the Introduction; empty without a segment.
  std::string peer_info() const;
  // Opens the segments of all who name the same host.
  void connect(const Welcome& welcome);

  // Segment::claim_wide_areas() of this rank's, if it has one.
  Status claim_wide_areas();

  const std::vector<Rank>& of_host() const { return of_host_; }  // this rank too, ascending
  bool reaches(Rank rank) const { return mapped_.contains(rank); }
  // Of this rank, or of one that is reached.
  SegmentContents& contents(Rank rank) { return mapped_.at(rank).segment->contents(); }
  EventCount& doorbell(Rank rank) { return mapped_.at(rank).doorbell; }
  // Some of those ranks, ascending, this one among them; null unless all are reached. Kept for the next time.
  const PeerGroup* group_of(std::span<const Rank> members);

  // Neighbours whose process has ended before their job did, each told once. Asks the system once it
  // has heard of an end, and 20 times a second at most otherwise.
  std::vector<Rank> lost(Time now);
  // lost() has something to look at.
  bool has_news() const { return ends_ && ends_->heard.load(); }
  // This rank's job has ended: from now on the end of its process is no loss to anyone.
  void end();

 private:
  struct Mapped {
    std::shared_ptr<Segment> segment;
    std::shared_ptr<SharedFile> window;  // once a tensor lies in one
    EventCount doorbell;
    Descriptor process;  // pidfd; none for ranks of this process, and for those that have ended
  };

  // Shared memory of another process, opened through /proc or from its door, and what watches the process.
  struct Reached {
    Descriptor process;
    SharedFile::Result opened;
    bool by_door = false;
  };

  static Mapped mapped(std::shared_ptr<Segment> segment, Descriptor process);
  Reached reach(const SegmentHandle& handle);
  Reached reach_by_door(const SegmentHandle& handle);
  bool map_window(Mapped& peer);
  bool map_windows(PeerGroup& peers);
  void serve_doors();
  void close_doors(Time now);
  Status open(Rank rank, const std::string& peer_info);
  void watch(const Descriptor& process);
  void stop_watching(Descriptor& process);

  Rank rank_;
  std::shared_ptr<Window> window_;
  std::list<FdPassing> doors_;  // to this rank's segment and window, until all of the host have connected
  Time doors_until_ = Time::max();
  std::vector<Rank> of_host_;
  std::map<Rank, Mapped> mapped_;
  std::map<std::vector<Rank>, PeerGroup> groups_;
  Time looked_{};
  std::shared_ptr<ProcessWatch> watch_;  // none while no other process is watched
  std::shared_ptr<ProcessWatch::Listener> ends_;
};

}  // namespace rueda
