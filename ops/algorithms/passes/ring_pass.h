// SPDX-License-Identifier: Apache-2.0
// Moves a vector once around the ring, reducing, gathering, or both, as ring.h schedules it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "core/base/host_buffer.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/arithmetic/squared_norm.h"
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
  // `channel` has been abandoned.
  struct Job {
    Channel* channel = nullptr;
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
  bool in_a_slot(const RingSchedule::Piece& piece) const {
    return piece.reducing || format_.narrow != nullptr;
  }
  std::byte* output_at(std::int64_t element) {
    return at(job_.output, (element - job_.output_origin) * format_.value_size);
  }

  // How elements lie in memory and in messages. Sizes are bytes of an element.
  struct Format {
    explicit Format(const Job& job);
    const kernels::Kernels& values;
    const kernels::Kernels& input;
    const kernels::Kernels* narrow;  // of the type that compressed values travel in; null: none are
    std::int64_t input_size;
    std::int64_t value_size;    // in the output
    std::int64_t partial_size;  // of a partial sum
  };

  // Scratch for partial sums: a ring of slots for messages that came, and one for messages that leave.
  class Slots {
   public:
    Slots(const RingSchedule& schedule, const Job& job, const Format& format);
    void take_memory(const Memory& memory);  // once; without partial sums there is none
    std::int64_t received_count() const { return received_; }
    std::int64_t loaded_count() const { return loaded_; }
    std::byte* received(std::int64_t message) { return at(scratch_.data(), message % received_ * bytes_); }
    std::byte* loaded(std::int64_t message) {
      return at(scratch_.data(), (received_ + message % loaded_) * bytes_);
    }

   private:
    std::int64_t received_;
    std::int64_t loaded_;
    std::int64_t bytes_;  // of a slot
    std::int64_t total_bytes_;
    HostBuffer scratch_;
  };

  // The messages of one direction, in the order of the schedule.
  struct Messages {
    Rank peer;
    std::int64_t posted = 0;
    std::int64_t done = 0;  // received: dealt with; sent: left
    std::deque<Transfer> in_flight{};
  };

  Job job_;
  RingSchedule schedule_;
  Format format_;
  Slots slots_;
  Messages received_;
  Messages sent_;
};

}  // namespace rueda
