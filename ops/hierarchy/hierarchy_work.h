// SPDX-License-Identifier: Apache-2.0
// The passage of an operation's data through the memory of each host and from host to host, chunk by chunk.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "core/base/host_buffer.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/compression/error_feedback.h"
#include "ops/hierarchy/slices.h"
#include "ops/shm/staged_work.h"

namespace rueda {

// The context in which a HierarchyWork is made.
struct HostContext {
  WorkContext area;  // with this host's members
  std::shared_ptr<const HostGroups> groups;
  Link& link;
  const Memory& memory;
  ErrorFeedback& feedback;
  std::size_t most_slices = 0;
};

// Purpose: one Plan over several hosts. Each rank packs. The owner of a slice (slices.h) reads the buffers of
// all members of its host. The owners of the slice carry out the operation among themselves, over the link.
// Each owner writes the outcome into the buffers of its host's members, and these unpack. Each slice of a
// chunk has its own tag, so several chunks can be on their way. If the tensors of all members of a host lie
// in their windows, nobody packs or unpacks there: owners read and write the tensors. Hosts may differ. Owned
// by RunningWorks.
//
// An abandoned rank runs out the journeys of all its slices empty, also those of chunks that were not packed.
// An empty message abandons its receiver's Work as well. Another member of the host does so by its count of
// kVoid: so all ranks of all hosts hear of it.
class HierarchyWork : public StagedWork {
 public:
  PlanRoute route() const final;

  // The largest tag that a Plan may use, whatever its number.
  static Tag largest_tag(std::size_t slices) {
    return tag_of(kPlansApart - 1, lane(SegmentContents::kWideBuffers, slices, 0));
  }

 protected:
  HierarchyWork(const Plan& plan, const HostContext& context, Slices slices);

  // When all members of this host have packed a chunk: what goes on the journeys of the slices that this rank
  // owns, out of the buffers of all. May throw WorkFailure.
  virtual void collect(std::size_t chunk, std::span<std::byte* const> buffers) = 0;
  // The journey of a slice that this rank owns. The journey needs no memory if `route.channel` is abandoned.
  virtual std::unique_ptr<Algorithm> journey_of(std::size_t chunk, std::size_t slice, const Route& route) = 0;
  // When they are over: the outcome into the buffers of all.
  virtual void spread(std::size_t chunk, std::span<std::byte* const> buffers) = 0;
  // The same where all members of this host have offered their tensors: out of them, and into them.
  virtual void find_in_place(std::span<std::byte* const> /*offers*/) {}  // first; may be repeated
  virtual void collect_in_place(std::size_t /*chunk*/) {}
  virtual void spread_in_place(std::size_t /*chunk*/) {}
  // The way of all journeys, also for a rank that owns no slice.
  virtual PlanRoute journeys() const = 0;

  bool owns(std::size_t chunk, std::size_t slice) const {
    return slices_.owner(chunk, slice, members()) == index();
  }
  // Calls visit(slice) for each that this rank owns, or does not own.
  template <class Visit>
  void for_owned(std::size_t chunk, Visit visit) const {
    for (std::size_t slice = 0; slice < slices_.count(); ++slice) {
      if (owns(chunk, slice)) visit(slice);
    }
  }
  template <class Visit>
  void for_others(std::size_t chunk, Visit visit) const {
    for (std::size_t slice = 0; slice < slices_.count(); ++slice) {
      if (!owns(chunk, slice)) visit(slice);
    }
  }
  // Of what this rank has in its own buffer, into those of all others.
  void copy_to_others(std::span<std::byte* const> buffers, Run run) const;
  const Slices& slices() const { return slices_; }
  const HostGroups& groups() const { return *groups_; }
  std::size_t host() const { return host_; }  // this rank's, among them
  const Memory& memory() const { return memory_; }

  HostBuffer scratch_;  // what travels may lie here

 private:
  // Purpose: a slice on its way.
  struct Journey {
    Journey(Link& link, Tag tag) : channel(link, tag) {}
    Channel channel;
    std::unique_ptr<Algorithm> algorithm;  // null: over
  };
  struct Chunk {
    std::size_t number;
    std::vector<std::unique_ptr<Journey>> journeys;
    bool over() const;
  };

  void take(std::size_t chunk, std::span<std::byte* const> buffers) final;
  bool travel() final;
  bool back(std::size_t chunk) final;
  void finish(std::size_t chunk, std::span<std::byte* const> buffers) final;
  Step take_in_place(std::span<std::byte* const> offers) final;
  Step run_out() final;

  static constexpr std::size_t lane(std::size_t buffer, std::size_t slices, std::size_t slice) {
    return 1 + buffer * slices + slice;
  }
  void depart(std::size_t chunk, bool abandoned);
  bool move(Chunk& chunk);

  const std::uint64_t plan_;
  const std::int64_t chunk_bytes_;  // of messages
  std::shared_ptr<const HostGroups> groups_;
  const std::size_t host_;
  Link& link_;
  const Memory& memory_;
  const Slices slices_;
  std::size_t departed_ = 0;     // chunks
  std::deque<Chunk> under_way_;  // in their order, without a gap
};

}  // namespace rueda
