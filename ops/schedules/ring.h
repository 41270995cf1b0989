// SPDX-License-Identifier: Apache-2.0
// The ring schedule: what each rank sends and receives, in which order. Pure arithmetic.
//
// A vector is cut into one segment for each rank. Ranks stand in a ring; each sends to the next and receives
// from the previous one. In the reducing half (n-1 steps) partial sums travel: the segment that rank r sends
// at step s is r-1-s, and what arrives is that of r-2-s, to which r adds its own part; so after n-1 steps the
// complete sum of segment r is at rank r. In the gathering half (n-1 steps more) complete segments travel on:
// at step s rank r sends segment r-s and receives r-1-s. Every rank sends and receives (n-1)/n of the vector
// in each half, which is optimal.
//
// Segments are cut into `chunks` pieces so that moving one overlaps with reducing another. Messages are
// numbered in the order of sending. `depth` chunks at a time go through all steps, then the next `depth`
// chunks. Rank r+1 receives number k of rank r as its number k. Except at step 0, number k passes on the data
// of number `forwards(k)`.
#pragma once

#include <cstdint>
#include <vector>

#include "rueda/types.h"

namespace rueda {

class RingSchedule {
 public:
  // bounds[i], bounds[i + 1]: first element of segment i, and one past its last.
  struct Shape {
    Rank rank = 0;
    Rank size = 1;
    std::vector<std::int64_t> bounds;
    bool reduces = true;
    bool gathers = true;
    std::int64_t chunk_elements = 1;  // a piece has at most so many
    std::int64_t depth = 4;
  };

  struct Piece {
    std::int64_t begin = 0;  // element
    std::int64_t count = 0;  // elements; may be 0
    bool reducing = false;   // of the reducing half: carries a partial sum
    bool first = false;      // step 0: the sender's own elements, not something received
    bool complete = false;   // received: with the receiver's part added the sum is complete
  };

  explicit RingSchedule(Shape shape);

  std::int64_t messages() const { return messages_; }
  Piece sent(std::int64_t number) const { return piece(number, shape_.rank); }
  // The piece that the previous rank sends as `number`.
  Piece received(std::int64_t number) const {
    return piece(number, (shape_.rank + shape_.size - 1) % shape_.size);
  }
  // Which received number must have been dealt with before `number` is sent; -1: none.
  std::int64_t forwards(std::int64_t number) const;
  // Which number, sent from the rank's own elements, must have left before `number` may arrive in their place
  // when input and output are one tensor; -1: none.
  std::int64_t overwrites(std::int64_t number) const;
  std::int64_t depth() const { return shape_.depth; }

  static std::vector<std::int64_t> even_bounds(std::int64_t elements, Rank size, std::int64_t multiple);
  // The same of segments that start at cache lines.
  static std::vector<std::int64_t> line_bounds(std::int64_t elements, Rank size, DataType dtype);

 private:
  struct Position {
    std::int64_t step;
    std::int64_t chunk;
    std::int64_t width;  // chunks in this round
  };
  Position position(std::int64_t number) const;
  Piece piece(std::int64_t number, Rank sender) const;

  Shape shape_;
  std::int64_t steps_;   // of both halves
  std::int64_t chunks_;  // pieces of a segment
  std::int64_t messages_;
};

}  // namespace rueda
