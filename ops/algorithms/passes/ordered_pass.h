// SPDX-License-Identifier: Apache-2.0
// Reduces a vector in a fixed order, whatever the number of ranks: every rank gets the values of its segment
// from all others, as they are, and combines them by a tree (reduction_tree.h).
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "core/base/host_buffer.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/arithmetic/squared_norm.h"
#include "ops/schedules/scaled_reduction.h"

namespace rueda {

// Purpose: reduce-scatters a vector in the fixed order. Part of a Work. Segments are cut into pieces; pieces
// of two rounds are under way at a time. Cost: (n-1)/n of the vector sent and received, as by a ring. It
// sends original values, so 16-bit floats take half the bytes of a ring. All pairs of ranks exchange
// messages. Scratch of 16 chunks, and of 8 KiB a rank at least.
class OrderedPass final : public Algorithm {
 public:
  // Segment i of `input` is elements [bounds[i], bounds[i + 1]); this rank's goes to `output`, which may be
  // the segment itself. Both may be null where `channel` has been abandoned.
  struct Job {
    Route route;
    ScaledReduction reduction;
    std::vector<std::int64_t> bounds;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::optional<SquaredNorm> squares;  // counts this rank's segment
  };

  explicit OrderedPass(Job job);
  Step step() override;
  std::string_view phase() const override { return "reducing in a fixed order"; }

 private:
  // Elements [begin, begin + count) of the vector.
  struct Piece {
    std::int64_t begin;
    std::int64_t count;
  };
  // Messages from or to all others.
  struct Round {
    std::vector<Transfer> messages;
    std::size_t over = 0;
    bool finished();
  };

  Piece piece(Rank segment, std::int64_t round) const;
  std::byte* slot(std::int64_t round, Rank distance) {
    return at(scratch_.data(), (round % kDepth * others_ + distance - 1) * piece_elements_ * value_size_);
  }
  bool receive();
  bool send();
  void combine(std::int64_t round);

  static constexpr std::int64_t kDepth = 2;

  const Job job_;
  const std::int64_t value_size_;
  const std::int64_t others_;
  const std::int64_t piece_elements_;
  std::int64_t rounds_ = 0;
  HostBuffer scratch_;  // from the first step on
  std::deque<Round> receiving_;
  std::deque<Round> sending_;
  std::int64_t combined_ = 0;  // rounds
  std::int64_t sent_ = 0;
};

}  // namespace rueda
