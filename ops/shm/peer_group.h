// SPDX-License-Identifier: Apache-2.0
// The ranks of a Plan that all share memory, as Works reach them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/engine/wait/event_count.h"
#include "ops/shm/memory/segment.h"
#include "ops/shm/memory/window.h"
#include "rueda/types.h"

namespace rueda {

struct StorePolicies;

// Purpose: what Works need of the members of a list of ranks, found once for all Plans of that list. Made and
// owned by LocalPeers, which keep what it points to; only windows come later.
struct PeerGroup {
  struct Member {
    Rank rank;
    SegmentContents* contents;
    EventCount* doorbell;
    const std::shared_ptr<SharedFile>* window;  // holds nothing before map_windows()
  };

  std::vector<Member> members;         // ascending
  std::size_t index = 0;               // of this rank among them
  const Window* own_window = nullptr;  // null too where another member has none, or it cannot be mapped
  // Maps those of all members, when this rank has a tensor in its own for the first time; whether that has
  // been possible. None: they are mapped.
  std::function<bool()> map_windows;

  std::size_t size() const { return members.size(); }
  Rank rank() const { return members[index].rank; }  // this rank
  // Rings sleeping members that await this rank. Store the value first. `awaited` gives the word in which a
  // member names the rank that it awaits. A member that waits for several awaits one at a time, so not each
  // of them wakes it.
  //
  // A member calls await(), then looks once more. All these accesses are seq_cst: the member sees the stored
  // value, or is rung.
  template <class Awaited>
  void ring_who_awaits(Awaited awaited) const {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i == index || !members[i].doorbell->listening()) continue;
      const std::uint32_t whom = awaited(i).load();
      if (whom == 0 || whom == index + 1) members[i].doorbell->ring();
    }
  }
  // In this rank's own word. False where it has said so before: then it need not look again.
  static bool await(SegmentContents::Awaited& own, std::size_t member) {
    const auto whom = static_cast<std::uint32_t>(member + 1);
    if (own.load(std::memory_order_relaxed) == whom) return false;
    own.store(whom);
    return true;
  }
  void ring_others() const {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i != index) members[i].doorbell->ring();
    }
  }
};

// This rank's memory of a slot or an area of its segment: the last Plan that used it, and its members. For an
// area also the last Plan of which this rank saw that nobody is in its buffers any more.
struct LastUse {
  std::uint64_t plan = 0;
  const PeerGroup* peers = nullptr;  // null: plan is 0
  std::uint64_t over = 0;
};

// The context in which a Work is made: the slot of a one-shot, or the area of a StagedWork.
struct WorkContext {
  const PeerGroup& peers;
  std::size_t number;               // of the slot or area; the same on all members
  LastUse& last;                    // of that, before this Work; becomes this one's; outlives it
  StorePolicies* stores = nullptr;  // none: all that is stored goes through the cache
  bool wide = false;                // one of the wide areas
};

}  // namespace rueda
