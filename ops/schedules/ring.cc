// SPDX-License-Identifier: Apache-2.0
#include "ops/schedules/ring.h"

#include <algorithm>

#include <utility>
#include "core/base/host_buffer.h"

namespace rueda {

RingSchedule::RingSchedule(Shape shape) : shape_(std::move(shape)) {
  const std::int64_t halves = (shape_.reduces ? 1 : 0) + (shape_.gathers ? 1 : 0);
  steps_ = halves * (shape_.size - 1);
  std::int64_t longest = 0;
  for (Rank i = 0; i < shape_.size; ++i) longest = std::max(longest, shape_.bounds[i + 1] - shape_.bounds[i]);
  chunks_ = (longest + shape_.chunk_elements - 1) / shape_.chunk_elements;
  messages_ = steps_ * chunks_;
}

// Rounds of `depth` chunks; in a round all steps, in a step the round's chunks.
RingSchedule::Position RingSchedule::position(std::int64_t number) const {
  const std::int64_t round = number / (steps_ * shape_.depth);
  const std::int64_t first_chunk = round * shape_.depth;
  const std::int64_t width = std::min(shape_.depth, chunks_ - first_chunk);
  const std::int64_t in_round = number - first_chunk * steps_;
  return {in_round / width, first_chunk + in_round % width, width};
}

std::int64_t RingSchedule::forwards(std::int64_t number) const {
  const Position at = position(number);
  return at.step == 0 ? -1 : number - at.width;
}

RingSchedule::Piece RingSchedule::piece(std::int64_t number, Rank sender) const {
  const Position at = position(number);
  const std::int64_t n = shape_.size;
  Piece result;
  result.first = at.step == 0;
  result.reducing = shape_.reduces && at.step < n - 1;
  result.complete = shape_.reduces && at.step == n - 2;
  // The reducing half starts at segment sender-1 and goes down; the gathering half starts at the sender's
  // own.
  const std::int64_t back = result.reducing ? at.step + 1 : at.step - (shape_.reduces ? n - 1 : 0);
  const std::int64_t segment = ((sender - back) % n + n) % n;
  const std::int64_t begin = shape_.bounds[segment];
  const std::int64_t length = shape_.bounds[segment + 1] - begin;
  const std::int64_t from = std::min(length, at.chunk * shape_.chunk_elements);
  result.begin = begin + from;
  result.count = std::min(length - from, shape_.chunk_elements);
  return result;
}

// The first segment that a rank sends is the first complete one that it receives.
std::int64_t RingSchedule::overwrites(std::int64_t number) const {
  if (!shape_.reduces) return -1;
  const Position at = position(number);
  return at.step == shape_.size - 1 ? number - at.width * (shape_.size - 1) : -1;
}

std::vector<std::int64_t> RingSchedule::even_bounds(std::int64_t elements, Rank size, std::int64_t multiple) {
  std::vector<std::int64_t> bounds(static_cast<std::size_t>(size) + 1);
  const std::int64_t blocks = (elements + multiple - 1) / multiple;
  for (Rank i = 0; i <= size; ++i) bounds[i] = std::min(elements, blocks * i / size * multiple);
  return bounds;
}

std::vector<std::int64_t> RingSchedule::line_bounds(std::int64_t elements, Rank size, DataType dtype) {
  return even_bounds(elements, size, static_cast<std::int64_t>(HostBuffer::kAlignment / size_of(dtype)));
}

}  // namespace rueda
