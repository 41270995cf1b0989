// SPDX-License-Identifier: Apache-2.0
// Allreduce of a short vector by recursive doubling (ops/doubling.h).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/base/host_buffer.h"
#include "ops/algorithms/algorithm.h"
#include "ops/algorithms/reduction.h"
#include "ops/doubling.h"
#include "ops/square_sums.h"
#include "ops/stream.h"

namespace rueda {

// Purpose: the whole vector, as accumulators, goes to each partner; so 16-bit floats are rounded once, and
// compressed values are not rounded at all. Part of a Work. Cost: doubling_rounds() messages of the whole
// vector, one after the other, where a ring has 2 (n-1) of an n-th; scratch of two vectors of accumulators.
class DoublingAllreduce final : public Algorithm {
 public:
  // `input` and `output` hold `elements` contiguous elements; they may be the same, and null where
  // `route.wire` has been abandoned. Of partial sums `input` has the accumulator's type. `squares`: counts this rank's even part of the result.
  struct Job {
    Route route;
    ScaledReduction reduction;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::int64_t elements = 0;
    std::optional<SquareSums> squares;
  };

  explicit DoublingAllreduce(Job job);
  Step step() override;
  std::string_view phase() const override;

 private:
  bool abandoned() const { return job_.route.wire->abandoned(); }
  void load();
  void begin();
  void end();
  void store();
  void count_squares();

  const Job job_;
  const kernels::Kernels& values_;  // of the vector's type
  const kernels::Kernels& sums_;    // of its accumulator
  const std::int64_t value_bytes_;  // of the whole vector
  const std::int64_t sum_bytes_;
  const std::vector<DoublingStep> steps_;
  HostBuffer scratch_;          // from the first step on
  std::byte* sum_ = nullptr;    // in scratch, what has been combined so far
  std::byte* other_ = nullptr;  // in scratch, what is received
  bool loaded_ = false;
  bool stored_ = false;
  std::size_t at_ = 0;  // of steps_
  std::optional<SendStream> sending_;
  std::optional<ReceiveStream> receiving_;
};

}  // namespace rueda
