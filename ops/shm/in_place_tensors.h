// SPDX-License-Identifier: Apache-2.0
// The tensors of a Plan that lie in the windows of all ranks of a host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/control/messages/plan.h"
#include "core/engine/submissions/entry.h"
#include "ops/buffers/inline_vectors.h"
#include "ops/shm/peer_group.h"
#include "ops/shm/staged_work.h"

namespace rueda {

// Purpose: tells the other members of a StagedWork where this rank's outputs lie, and finds theirs. Part of
// the Work; refers to its Plan.
class InPlaceTensors {
 public:
  InPlaceTensors(const Plan& plan, std::span<Entry> entries, const PeerGroup& peers, InlineVectors& lists);

  // All of this rank's outputs lie in its window, as they are, and it reaches the windows of all members.
  bool possible() const { return !offsets_.empty(); }
  void rule_out() { offsets_.clear(); }
  // For StagedWork: how many bytes an offer has, 0 where none is possible; the offer.
  std::size_t offer_bytes() const { return offsets_.size() * sizeof(std::uint64_t); }
  void offer(std::byte* room) const { std::memcpy(room, offsets_.all().data(), offer_bytes()); }
  // When all have offered; does nothing the second time. Throws WorkFailure where what another rank says
  // cannot be: it may come from another build.
  void find(std::span<std::byte* const> offers);
  bool found() const { return !tensors_.empty(); }
  // Once found: whether all begin at lines of cache.
  bool begin_at_lines() const;
  // Once found: a member's output.
  std::byte* of(std::size_t entry, std::size_t member) const {
    return tensors_[entry * peers_.size() + member];
  }

 private:
  static constexpr std::size_t kMost = StagedWork::kOfferBytes / sizeof(std::uint64_t);
  // How many tensors may lie in a window: all or none.
  static std::size_t candidates(std::span<Entry> entries, const PeerGroup& peers) {
    return peers.own_window == nullptr || entries.size() > kMost ? 0 : entries.size();
  }

  const Plan& plan_;
  const PeerGroup& peers_;
  InlineVectors& lists_;
  InlineVector<std::uint64_t> offsets_;  // of this rank's tensors in its window; empty: not all lie there
  InlineVector<std::byte*> tensors_;     // of all members, entry by entry
};

}  // namespace rueda
