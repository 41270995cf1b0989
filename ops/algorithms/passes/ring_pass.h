// SPDX-License-Identifier: Apache-2.0
// Moves a vector once around the ring, reducing, gathering, or both, as ring.h schedules it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "core/base/host_buffer.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/collectives/squared_norm.h"
#include "ops/kernels/kernels.h"
#include "ops/schedules/ring.h"

namespace rueda {

// Purpose: the engine of ring_allreduce, reducescatter and ring_allgather. Part of a Work. Partial sums
// travel in the accumulator's type, so 16-bit floats are rounded once, at the end; compressed ones travel in
// the narrow type, and so do complete values. Cost: 2(n-1)/n of the vector sent and received for both halves;
// scratch of 5 * depth chunks.
class RingPass final : public Algorithm {
 public:
  // `input` and `output` hold the vector; output[0] is element `output_origin` of it. With a gathering half
  // alone the own segment must stand in the output already, and `input` is not read. Both may be null where
  // `wire` has been abandoned.
  struct Job {
    Channel* wire = nullptr;
    const Memory* memory = nullptr;
    Group group;
    DataType dtype = DataType::uint8;
    ReduceOp op = ReduceOp::sum;
    Compression compression = Compression::none;  // of float32 that is reduced
    bool of_sums = false;                         // the input is of the accumulator's type
    kernels::Scale prescale;
    kernels::Scale postscale;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::int64_t output_origin = 0;
    RingSchedule::Shape schedule;
    std::optional<SquaredNorm> squares;  // counts the segment that becomes complete here
  };

  explicit RingPass(Job job);
  static std::size_t bytes_of_partial_sum(const Job& job);  // as it travels, an element of it
  Step step() override;
  std::string_view phase() const override;

 private:
  bool post_receives();
  bool take_received();
  void take(const RingSchedule::Piece& piece);
  void take_compressed(const RingSchedule::Piece& piece);
  bool post_sends();
  bool retire_sends();

  ConstBytes source(std::int64_t number, const RingSchedule::Piece& piece);
  ConstBytes compressed_source(std::int64_t number, const RingSchedule::Piece& piece);
  // Whether what arrives has to be converted, or added to, before it stands where it belongs.
  bool in_a_slot(const RingSchedule::Piece& piece) const { return piece.reducing || narrow_ != nullptr; }
  std::byte* output_at(std::int64_t element) {
    return at(job_.output, (element - job_.output_origin) * value_size_);
  }
  std::byte* received_slot(std::int64_t number) {
    return at(scratch_.data(), number % received_slots_ * slot_bytes_);
  }
  std::byte* loaded_slot(std::int64_t number) {
    return at(scratch_.data(), (received_slots_ + number % loaded_slots_) * slot_bytes_);
  }

  Job job_;
  RingSchedule schedule_;
  const kernels::Kernels& kernels_;
  const kernels::Kernels& input_kernels_;
  const kernels::Kernels* narrow_;  // of the type that compressed values travel in; null: none are
  std::int64_t input_size_;         // bytes of an element there
  std::int64_t value_size_;         // ... and in the output
  std::int64_t partial_size_;       // bytes of an element of a partial sum
  std::int64_t received_slots_;
  std::int64_t loaded_slots_;
  std::int64_t slot_bytes_;
  std::int64_t scratch_bytes_;
  HostBuffer scratch_;  // from the first step on
  Rank previous_;       // who sends to us
  Rank next_;

  std::int64_t receives_posted_ = 0;
  std::int64_t received_ = 0;  // dealt with
  std::int64_t sends_posted_ = 0;
  std::int64_t sent_ = 0;  // left
  std::deque<Transfer> receiving_;
  std::deque<Transfer> sending_;
};

}  // namespace rueda
