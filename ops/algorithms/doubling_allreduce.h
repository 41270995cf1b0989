// SPDX-License-Identifier: Apache-2.0
// Allreduce of a short vector by recursive doubling, of a longer one by halving
// (ops/schedules/recursive_doubling.h).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/base/host_buffer.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/arithmetic/squared_norm.h"
#include "ops/link/chunked_transfer.h"
#include "ops/schedules/recursive_doubling.h"
#include "ops/schedules/scaled_reduction.h"

namespace rueda {

// Purpose: what is not complete travels as accumulators; so 16-bit floats are rounded once, and compressed
// values are not rounded at all. Part of a Work. Cost: doubling_rounds() messages of the whole vector, one
// after the other, or 2 log2 n of its half, quarter and so on, where a ring has 2 (n-1) of an n-th; scratch
// of two vectors of accumulators.
class DoublingAllreduce final : public Algorithm {
 public:
  // `input` and `output` hold `elements` contiguous elements; they may be the same, and null where
  // `route.channel` has been abandoned. Of partial sums `input` has the accumulator's type. `squares`: counts
  // this rank's even part of the result.
  struct Job {
    Route route;
    ScaledReduction reduction;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::int64_t elements = 0;
    std::optional<SquaredNorm> squares;
  };

  explicit DoublingAllreduce(Job job);
  Step step() override;
  std::string_view phase() const override;

 private:
  // Elements of the vector.
  struct Range {
    std::int64_t begin;
    std::int64_t count;
  };
  Range range(Segments segments) const {
    return {bounds_[segments.begin], bounds_[segments.end] - bounds_[segments.begin]};
  }

  bool halves() const { return job_.reduction.pairing == Pairing::halving; }
  bool abandoned() const { return job_.route.channel->abandoned(); }
  void load();
  void begin();
  void end();
  void store();
  void finish();

  // Scratch for what is not complete. Partial sums of this rank and of its peer are swapped as they are
  // combined.
  struct Partial {
    HostBuffer scratch;          // from the first step on
    std::byte* own = nullptr;    // all that has been combined so far
    std::byte* peers = nullptr;  // received
    Segments complete;           // of `own`, once all is combined
    bool loaded = false;
    bool stored = false;  // the output has it
  };

  const Job job_;
  const kernels::Kernels& values_;  // of the vector's type
  const kernels::Kernels& sums_;    // of its accumulator
  const std::int64_t value_size_;   // bytes of an element
  const std::int64_t sum_size_;
  const std::vector<std::int64_t> bounds_;  // of segments
  const std::vector<PairStep> steps_;
  Partial partial_;
  std::size_t at_ = 0;  // of steps_
  std::optional<SendStream> sending_;
  std::optional<ReceiveStream> receiving_;
};

}  // namespace rueda
