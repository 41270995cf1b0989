// SPDX-License-Identifier: Apache-2.0
// One Plan's passage through the shared memory of its ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/control/messages/plan.h"
#include "core/engine/work.h"
#include "ops/shm/area_progress.h"
#include "ops/shm/buffer_pass.h"
#include "ops/shm/store_policy.h"

namespace rueda {

// Purpose: goes one of two ways. A rank whose tensors lie where all can reach them offers that before it
// packs. When all have offered, nobody packs: each rank reduces its part in the tensors of all, says `taken`,
// and waits until all have. A rank that sees that another has packed packs too: the BufferPass. So all go the
// same way, whatever they see first. Owned by RunningWorks.
//
//   preparing > waiting_for_area > offered > in_place > waiting_for_others > unpacking
//                                |         > buffers                       > unpacking
//                                > buffers (no offer)
//   offered, in_place, waiting_for_others > abandoning_offer          buffers, unpacking > abandoning
//
// A rank that abandons the Plan says so and leaves: its tensors are its own. After an offer it stays until
// all others have taken or abandoned: they may be in its tensors.
class StagedWork : public Work, protected ChunkedOperation {
 public:
  enum class State {
    preparing,
    waiting_for_area,
    offered,
    in_place,
    waiting_for_others,
    buffers,
    unpacking,
    abandoning_offer,
    abandoning,
  };

  StagedWork(std::uint64_t plan, const WorkContext& context);
  Step step() final;
  void abandon() final { area_.abandon(); }
  std::string_view phase() const final;
  PlanRoute route() const override { return {.inside = offers_.empty() ? "staged" : "in place"}; }

  static constexpr std::uint64_t kMostChunks = AreaProgress::kMostChunks;
  static constexpr std::size_t kOfferBytes = SegmentContents::kOfferBytes;
  // Bytes of a chunk when a Plan asks for `wanted`: whole lines of cache, so that parts of different ranks
  // share none.
  static std::size_t chunk_bytes(std::int64_t wanted);

 protected:
  static constexpr std::size_t kLine = 64;

  // Before anything is shared; called again until it says false. May throw WorkFailure.
  virtual bool prepare() = 0;
  // The size of this rank's offer, by which the others find its tensors in shared memory. At most
  // kOfferBytes, and as many on all members that offer; 0 if the tensors do not lie there.
  virtual std::size_t offer_bytes() const { return 0; }
  virtual void offer(std::byte* /*room*/) const {}
  // A piece of this rank's part, of the tensors of all; called again until it says done. May throw
  // WorkFailure.
  virtual Step take_in_place(std::span<std::byte* const> /*offers*/) { return Step::done; }
  // When all is over here: copies a piece of an output back. Called again until it says false.
  virtual bool copy_back() = 0;
  // Of an abandoned Work: ends its journeys to other hosts. Called again until it says done.
  virtual Step run_out() { return Step::done; }
  virtual std::string_view journey() const { return {}; }  // as phase() says it
  // That pack and take, or take_in_place, have gone through: what their time is told by. 0: it tells nothing.
  virtual std::size_t bytes_moved() const { return 0; }

  void set_chunks(std::size_t chunks) { buffer_pass_.set_chunks(chunks); }
  std::size_t chunks() const { return buffer_pass_.chunks(); }
  bool abandoned() const { return area_.abandoned(); }
  // Known once all ranks go in place, or not.
  TimedStores& stores() { return stores_; }
  std::size_t buffer_count() const { return area_.buffer_count(); }  // chunks that may be under way
  std::byte* own_buffer(std::size_t chunk) const { return area_.own_buffer(chunk); }
  std::size_t index() const { return area_.index(); }  // of this rank among the members
  std::size_t members() const { return area_.members(); }
  InlineVectors& lists() { return lists_; }  // for those who derive from it

 private:
  void enter(State state);
  bool has_offered() const {
    return state_ == State::offered || state_ == State::in_place || state_ == State::waiting_for_others;
  }
  void begin();
  bool choose_pass();
  bool gives_up() const { return rueda::gives_up(*this, area_); }
  Step run_out_and_leave();
  Step leave(Step how);

  InlineVectors lists_;
  AreaProgress area_;
  std::span<std::byte* const> offers_;  // of all, in place
  BufferPass buffer_pass_;
  StorePolicies* const policies_;
  TimedStores stores_;
  State state_ = State::preparing;
};

std::string_view to_string(StagedWork::State state);

}  // namespace rueda
