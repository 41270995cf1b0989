// SPDX-License-Identifier: Apache-2.0
// One Plan by NCCL.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/nccl/nccl_group_work.h"

namespace rueda {

// Purpose: asks the other ranks for all they must agree on, gives the device its part, and is over then. Work
// given to devices cannot be taken back, so every step that may fail on some rank comes before its vote. All
// ranks go through the same exchanges, also an abandoned one; only a vote is abandoned. By it the others hear
// of it.
class NcclWork final : public NcclGroupWork {
 public:
  enum class Stage { window, graph, sizes, output, vote, turn, registering, giving_back, warming, launched };

  NcclWork(const Plan& plan, std::span<Entry> entries, NcclContext context);

 private:
  Step carry_out() override;
  void abandon_own() override;
  std::string_view own_phase() const override;
  PlanRoute own_route() const override {
    return {.between = "NCCL", .sent_as = sent_as_, .ends_on_device = true};
  }
  Step exchange();
  void begin_exchange(const Bytes& own);
  void exchanged();
  [[noreturn]] void cannot_be_taken_back() const;
  Bytes own_sizes();
  void make_output();
  Bytes own_window() const;
  void launch();
  void launch_reductions(const NcclEnd& end, NcclLane& lane);
  std::vector<NcclRun> runs_in_window(NcclLane& lane);
  BatchCopy window_copy(bool into) const;
  void keep_apart(Entry& entry, NcclLane& lane);
  std::byte* memory_for(const Request& request, const ConstTensorView& values, std::size_t bytes);
  void launch_exchange(const NcclEnd& end);
  void settle_results(NcclLane& lane);
  void settle_reduction(NcclLane& lane);
  std::vector<std::int64_t> in_bytes(std::vector<std::int64_t> rows) const;
  std::vector<std::int64_t> rows_scattered() const;
  Bytes own_graph();
  bool warm_up();
  bool begins_a_graph() const { return plan_.operation == Operation::barrier && plan_.capture != 0; }
  static Stage first_stage(const Plan& plan);
  bool packs() const;
  bool narrows() const;
  bool takes_window() const;
  bool in_window() const;
  DataType travels_as() const;

  Stage stage_;
  std::optional<MemberExchange> exchange_;
  std::vector<std::int64_t> sent_;      // rows for each member, or for all of them
  std::vector<std::int64_t> received_;  // rows from each member
  TensorView output_;
  NcclWindows::Verdict verdict_;
  std::vector<CopyPiece> apart_;  // bytes to go back to where they belong
  std::size_t apart_bytes_ = 0;   // of the lane's buffer, which they fill
  NcclReduction reduction_;
  Compression sent_as_ = Compression::none;
  int warm_ = 0;  // what a graph's lane has been given before it
};

// The current step of the Work, for reports.
std::string_view to_string(NcclWork::Stage stage);

}  // namespace rueda
