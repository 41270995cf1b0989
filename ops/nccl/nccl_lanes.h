// SPDX-License-Identifier: Apache-2.0
// The communicators of a group: those of its Plans, and those of its graphs.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/control/messages/plan.h"
#include "ops/cuda/device.h"
#include "ops/nccl/nccl_lane.h"

namespace rueda {

// Purpose: the lanes in which Plans take turns; the same number on all members once they agree. Owned by an
// NcclGroup, used by the background thread.
class NcclLanes {
 public:
  // Anew on a device, with buffers of so many bytes each; `pinned`: with as much of the host's memory, and
  // std::bad_alloc where a buffer is missing. Whoever catches what it throws calls clear().
  void make(const NcclFunctions& nccl, Device& device, std::size_t count, std::size_t bytes, bool pinned);
  void clear() { lanes_.clear(); }
  bool empty() const { return lanes_.empty(); }
  std::size_t size() const { return lanes_.size(); }
  std::size_t own_buffer_bytes() const { return lanes_.empty() ? 0 : lanes_.back()->buffer_bytes(); }

  // No more than so many lanes, and bytes of their buffers: what all members have.
  void agree(std::size_t count, std::size_t bytes);
  std::size_t buffer_bytes() const { return buffer_bytes_; }
  // Begins to connect them with the other members, by an id for each, as it was told.
  void connect(const std::vector<std::string>& ids, int size, int index);
  // Whether NCCL is through with what all were last asked. Throws BackendError if it has failed.
  bool ready() const;
  bool idle() const;

  NcclLane& of(const Plan& plan) const { return *lanes_[turn_of(plan)]; }
  std::byte* pinned_of(const Plan& plan) const { return pinned_[turn_of(plan)].get(); }

  // Tells one lane after another, each when NCCL is through with the one before. Whether all are by now.
  bool have_told(const std::function<void(NcclLane&)>& tell);
  bool is_telling() const { return told_ > 0; }
  // `failed`: aborts all; else looks for what has failed on the device, where they are `connected`.
  void tend(bool failed, bool connected);

 private:
  std::size_t turn_of(const Plan& plan) const { return plan.number % lanes_.size(); }

  std::vector<std::shared_ptr<std::byte>> pinned_;  // by lane
  std::vector<std::unique_ptr<NcclLane>> lanes_;
  std::size_t buffer_bytes_ = 0;  // that all lanes of all members have
  std::size_t told_ = 0;          // lanes
};

// Purpose: a lane for each graph, since graphs run when they like. Owned by an NcclGroup, used by the
// background thread.
class NcclGraphs {
 public:
  void add(const Plan& plan, std::unique_ptr<NcclLane> lane) { lanes_[graph_of(plan)] = std::move(lane); }
  void remove(const Plan& plan) { lanes_.erase(graph_of(plan)); }
  NcclLane& of(const Plan& plan) const { return *lanes_.at(graph_of(plan)); }
  // Begins to connect one, by the id that was told last.
  void set_id(std::string id) { id_ = std::move(id); }
  void connect(const Plan& plan, int size, int index);
  // Does nothing where the graph has none.
  void give_up(const Plan& plan);
  void tend(bool failed);

 private:
  std::map<GraphKey, std::unique_ptr<NcclLane>> lanes_;
  std::string id_;
};

}  // namespace rueda
