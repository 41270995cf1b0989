// SPDX-License-Identifier: Apache-2.0
// The passage of an operation's data through shared buffers, chunk by chunk.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/engine/work.h"
#include "ops/shm/area_progress.h"
#include "ops/shm/store_policy.h"

namespace rueda {

// Purpose: what an operation does in a BufferPass.
class ChunkedOperation {
 public:
  // Whether the next chunk can be packed: its contents may still be on their way from a device.
  virtual bool ready(std::size_t) { return true; }
  // This rank's part of a chunk, into a buffer of its own.
  virtual void pack(std::size_t chunk, std::byte* buffer) = 0;
  // When all have packed it: out of, or into, the buffers of all, in the order of ranks. May throw
  // WorkFailure.
  virtual void take(std::size_t chunk, std::span<std::byte* const> buffers) = 0;
  // When all have taken it, out of this rank's own buffer.
  virtual void unpack(std::size_t chunk, const std::byte* buffer) = 0;
  // Whether a chunk is nothing but bytes that move.
  virtual bool timed(std::size_t /*chunk*/) const { return true; }
  // Of journeys to other hosts. Moves those that are under way; whether anything moved. May throw
  // WorkFailure.
  virtual bool travel() { return false; }
  // Whether a chunk that was taken has come back; if so `finish` puts what has come into the buffers of all.
  virtual bool back(std::size_t) { return true; }
  virtual void finish(std::size_t /*chunk*/, std::span<std::byte* const> /*buffers*/) {}
  // True when every rank knows the whole schedule. Before that an abandoned Work continues.
  virtual bool can_run_out() const { return true; }

 protected:
  ~ChunkedOperation() = default;
};

// Whether an abandoned Work stops now.
inline bool gives_up(const ChunkedOperation& operation, const AreaProgress& area) {
  return area.abandoned() && operation.can_run_out();
}

// Purpose: each chunk is packed, taken, in a wide area carried to other hosts and finished, and unpacked, in
// this order; several chunks are under way at a time. A rank packs a chunk into a buffer of its own and says
// `written`. When all have, each takes its part of the chunk out of the buffers of all, or changes them, and
// says `taken`. When all have, each may read the outcome in its own buffer, which is free then. Part of a
// StagedWork.
//
//   packed >= begun >= taken >= unpacked >= packed - buffers
//
// In a wide area a rank says `taken` when the chunk has come back from other hosts and lies in the buffers of
// all. Chunks are finished in their order.
class BufferPass {
 public:
  enum class State { packing, moving, travelling, over };

  // How many there are; the same on all ranks. May grow while chunk 0 is taken, or unpacked.
  void set_chunks(std::size_t chunks) { chunks_ = chunks; }
  std::size_t chunks() const { return chunks_; }

  // One step of each kind; whether anything moved.
  bool step(ChunkedOperation& operation, AreaProgress& area, TimedStores& stores);
  State state() const;

 private:
  bool pack_one(ChunkedOperation& operation, AreaProgress& area, TimedStores& stores);
  bool take_one(ChunkedOperation& operation, AreaProgress& area, TimedStores& stores);
  bool finish_some(ChunkedOperation& operation, AreaProgress& area);
  bool unpack_one(ChunkedOperation& operation, AreaProgress& area);

  std::size_t chunks_ = 0;
  std::size_t packed_ = 0;  // chunks
  std::size_t begun_ = 0;   // taken here
  std::size_t taken_ = 0;   // of them, said so
  std::size_t unpacked_ = 0;
};

std::string_view to_string(BufferPass::State state);

}  // namespace rueda
