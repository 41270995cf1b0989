// SPDX-License-Identifier: Apache-2.0
// The members of a process set, as NCCL connects them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/control/messages/plan.h"
#include "ops/cuda/device.h"
#include "ops/nccl/nccl_lanes.h"
#include "ops/nccl/nccl_memory.h"
#include "ops/nccl/nccl_windows.h"

namespace rueda {

// The settings and resources that a rank brings to all groups.
struct NcclOwn {
  std::function<const NcclLibrary&()> nccl;  // asked when a device is used
  std::shared_ptr<NcclMemory> memory;
  std::string host;
  std::size_t lanes = 1;
  std::size_t buffer_bytes = 0;  // of each lane
  bool may_share_devices = false;
  bool encrypted = false;  // data between hosts, which NCCL does not encrypt
};

// With whom NCCL connects a member: all others, or those of its host.
enum class NcclReach : std::uint8_t { all, host };

// Purpose: how one list of ranks does device Plans: by NCCL, or, where some rank cannot or two share a
// device, by the host. All members decide it from the same words, which they exchange in their first Plan.
// Its steps are those of the Works that need it. Owned by the NcclState, used by the background thread.
class NcclGroup {
 public:
  enum class Stage {
    unknown,      // the first Work that waits is to tell the others `introduction`
    introducing,  // a Work does
    connecting,   // NCCL does
    ready,
    refused,  // for good: see problem()
  };

  NcclGroup(const NcclOwn& own, RankSet members, Rank rank, NcclReach reach)
      : own_(own), members_(std::move(members)), index_(members_.index_of(rank)), reach_(reach) {}

  Stage stage() const { return stage_; }
  void set_introducing(bool introducing) { stage_ = introducing ? Stage::introducing : Stage::unknown; }
  // Plans that wait for the group to be connected, as they are started, the same on all members: the first
  // is the one that connects them.
  void await(std::uint64_t plan) { waiting_.push_back(plan); }
  bool is_first(std::uint64_t plan) const { return !waiting_.empty() && waiting_.front() == plan; }
  void await_no_more(std::uint64_t plan) { std::erase(waiting_, plan); }
  // This rank's message to the others about device `number`; there is no device if the rank has joined before
  // its first tensor.
  Bytes introduction(Devices& devices, std::optional<int> number);
  // Takes the introductions of all: NCCL begins to connect, or the group is refused. If some member knows no
  // device yet, this Plan goes by the host, and a later one decides. Returns true if it is decided.
  bool introduced(Reader all);
  // Whether it is connected by now. Throws BackendError where NCCL says that it cannot be.
  void poll();

  const std::string& problem() const { return problem_; }  // why the last to connect go by the host
  int device() const { return device_; }
  Rank index() const { return index_; }
  Rank size() const { return members_.count(); }
  // Those whom NCCL connects, and this rank's index among them.
  Rank connected() const { return connected_; }
  Rank connected_index() const { return connected_index_; }
  bool on_several_hosts() const { return several_hosts_; }
  std::size_t buffer_bytes() const { return lanes_.buffer_bytes(); }  // that all lanes of all members have
  // Plans take turns; a graph has one of its own.
  NcclLane& lane_of(const Plan& plan) { return plan.capture == 0 ? lanes_.of(plan) : graphs_.of(plan); }
  // A lane for a graph that is to be captured: what this rank tells the others (`problem`: why it cannot),
  // and, of what all have told, why some rank cannot; empty: connect_graph() is next.
  Bytes graph_words(const Plan& plan, Device& device, std::string problem);
  std::string problem_of_graph(const Plan& plan, Reader all);
  void connect_graph(const Plan& plan);
  // A capture has failed here: NCCL has had calls of its operations that other ranks have not.
  void give_up_graph(const Plan& plan);
  // If NCCL reaches one host only: as much of the host's memory for the way on from there.
  std::byte* pinned_of(const Plan& plan) const { return lanes_.pinned_of(plan); }
  bool has_several_lanes() const { return lanes_.size() > 1; }
  NcclWindows& windows() { return windows_; }
  // Whether NCCL can know a window here.
  bool can_register(const DeviceWindow& window) const;
  // One lane after another tells NCCL; all members do, in the same order. Whether all have by now.
  bool registered(const DeviceWindow& window);
  // The same for having NCCL forget windows, which then are no more, from the last one on: when the device is
  // through with what it was given.
  bool gave_back(std::vector<std::size_t>& windows);
  // Looks for what has failed on the device, and aborts it where the job has.
  void tend(bool failed);

 private:
  struct Introduction;
  static Introduction read(Reader& reader);
  std::string problem_between(const std::vector<Introduction>& all) const;
  std::string joined_without_device(const std::vector<Introduction>& all) const;
  std::string problem_of_device(Device& device);
  std::string make_id(std::string& problem) const;
  std::unique_ptr<NcclLane> make_graph_lane(Device& device) const;
  void connect(const std::vector<Introduction>& all);

  const NcclOwn& own_;
  RankSet members_;
  Rank index_;
  NcclReach reach_;
  Rank connected_ = 0;
  Rank connected_index_ = 0;
  Stage stage_ = Stage::unknown;
  std::deque<std::uint64_t> waiting_;
  std::string problem_;
  int device_ = 0;
  bool several_hosts_ = false;
  NcclWindows windows_;  // outlive the lanes, which have told NCCL of them
  NcclLanes lanes_;
  NcclGraphs graphs_;
};

}  // namespace rueda
