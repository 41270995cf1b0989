// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/buffer_pass.h"

namespace rueda {

bool BufferPass::step(ChunkedOperation& operation, AreaProgress& area, TimedStores& stores) {
  const bool packed = pack_one(operation, area, stores), taken = take_one(operation, area, stores),
             finished = area.wide() && finish_some(operation, area), unpacked = unpack_one(operation, area);
  return packed || taken || finished || unpacked;
}

bool BufferPass::pack_one(ChunkedOperation& operation, AreaProgress& area, TimedStores& stores) {
  if (packed_ == chunks_ || packed_ == unpacked_ + area.buffer_count()) return false;
  if (!operation.ready(packed_)) return false;
  {
    const TimedStores::Timing timing(stores, operation.timed(packed_));
    operation.pack(packed_, area.own_buffer(packed_));
  }
  area.say_written(AreaProgress::kOffered + ++packed_);
  return true;
}

bool BufferPass::take_one(ChunkedOperation& operation, AreaProgress& area, TimedStores& stores) {
  if (begun_ == packed_ || !area.all_written(AreaProgress::kOffered + begun_ + 1) ||
      gives_up(operation, area))
    return false;
  const std::span<std::byte* const> buffers = area.buffers(begun_);
  {
    const TimedStores::Timing timing(stores, operation.timed(begun_));
    operation.take(begun_, buffers);
  }
  ++begun_;
  if (!area.wide()) area.say_taken(++taken_);
  return true;
}

// All that has come back and is next.
bool BufferPass::finish_some(ChunkedOperation& operation, AreaProgress& area) {
  bool moved = operation.travel();
  for (; taken_ < begun_ && operation.back(taken_) && !gives_up(operation, area); moved = true) {
    operation.finish(taken_, area.buffers(taken_));
    area.say_taken(++taken_);
  }
  return moved;
}

bool BufferPass::unpack_one(ChunkedOperation& operation, AreaProgress& area) {
  if (gives_up(operation, area) || unpacked_ == taken_ || !area.all_taken(unpacked_ + 1) ||
      gives_up(operation, area))
    return false;
  operation.unpack(unpacked_, area.own_buffer(unpacked_));
  ++unpacked_;
  return true;
}

BufferPass::State BufferPass::state() const {
  if (unpacked_ == chunks_) return State::over;
  if (taken_ < begun_) return State::travelling;
  return packed_ == 0 ? State::packing : State::moving;
}

std::string_view to_string(BufferPass::State state) {
  switch (state) {
    case BufferPass::State::packing: return "packing tensors";
    case BufferPass::State::moving: return "reducing or moving data in shared memory";
    case BufferPass::State::travelling: return "moving data between hosts";
    case BufferPass::State::over: return "unpacking tensors";
  }
  return "";
}

}  // namespace rueda
