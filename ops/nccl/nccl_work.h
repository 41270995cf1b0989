// SPDX-License-Identifier: Apache-2.0
// One Plan by NCCL.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/engine/backend.h"
#include "ops/nccl/member_exchange.h"
#include "ops/nccl/nccl_backend.h"
#include "ops/nccl/nccl_launch.h"

namespace rueda {

// Purpose: asks the other ranks what must be known before, gives the device its part, and is over then. What
// all ranks are about to give their devices cannot be taken back: so whatever may fail on one of them comes
// before its vote. All go through the same exchanges, who has been abandoned too; only a vote is abandoned,
// by which the others hear of it.
class NcclWork final : public Work {
 public:
  // Where its Works meet; all of it outlives them.
  struct Place {
    LinkBackend& link;
    NcclState& state;
    DeviceSides& sides;
    Backend& staged;
  };
  NcclWork(const Plan& plan, std::span<Entry> entries, Place place);
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;
  ~NcclWork() override;

  Step step() override;
  void abandon() override;
  std::string_view phase() const override;

 private:
  enum class Stage { meeting, window, sizes, output, vote, turn, registering, launched };

  Step meet();
  Step exchange();
  void begin_exchange(const Bytes& own);
  void exchanged();
  [[noreturn]] void cannot_be_taken_back() const;
  Bytes own_sizes();
  void make_output();
  Bytes own_window() const;
  NcclCaller caller();
  void launch();
  void launch_reductions(const NcclCaller& caller, NcclLane& lane);
  std::vector<NcclRun> runs_in_window(NcclLane& lane);
  BatchCopy window_copy(bool into) const;
  void keep_apart(Entry& entry, NcclLane& lane);
  void launch_exchange(const NcclCaller& caller);
  void settle_results(NcclLane& lane);
  void finish();
  std::vector<std::int64_t> in_bytes(std::vector<std::int64_t> rows) const;
  std::vector<std::int64_t> rows_scattered() const;
  DeviceSide& side() { return place_.sides.at(group_.device()); }
  std::byte* temporary(const ConstTensorView& values, std::size_t bytes);
  int device_here() const;
  Entry& entry() const { return entries_.front(); }
  Stage first_stage() const;
  bool packs() const;
  bool narrows() const;
  bool in_window() const;
  DataType travels_as() const;

  const Plan& plan_;
  std::span<Entry> entries_;
  Place place_;
  NcclGroup& group_;
  Stage stage_ = Stage::meeting;
  bool abandoned_ = false;
  bool leads_ = false;  // it is this Work in which the group meets
  std::optional<MemberExchange> exchange_;
  std::unique_ptr<Work> staged_;
  std::vector<std::int64_t> sent_;      // rows for each member, or for all of them
  std::vector<std::int64_t> received_;  // rows from each member
  TensorView output_;
  NcclWindows::Verdict verdict_;
  // What stands in for a rank that has joined, from the host's memory by way of pinned memory, or for what
  // NCCL must not see.
  struct Temporary {
    BlockPool::Block pinned;
    BlockPool::Block device;
  };
  std::vector<Temporary> temporaries_;
  std::vector<CopyPiece> apart_;  // bytes to go back to where they belong
  NcclReduction reduction_;
};

}  // namespace rueda
