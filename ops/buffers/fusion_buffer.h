// SPDX-License-Identifier: Apache-2.0
// Buffers in which several tensors travel as one.
#pragma once

#include <memory>
#include <vector>

#include "core/base/host_buffer.h"
#include "ops/buffers/work_memory.h"

namespace rueda {

// Purpose: keeps the buffers of finished Works for the next ones; memory that has been touched once stays.
// There are at most as many as Works run at a time. Owned by a backend, used by the background thread.
class FusionBuffer {
 public:
  // Purpose: one buffer on loan. Move-only; goes back when destroyed. Does not outlive the FusionBuffer.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept : home_(other.home_), buffer_(std::move(other.buffer_)) {
      other.home_ = nullptr;
    }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(home_, other.home_);
      std::swap(buffer_, other.buffer_);
      return *this;
    }
    ~Lease() {
      if (home_ != nullptr) home_->free_.push_back(std::move(buffer_));
    }
    std::byte* data() const { return buffer_.data(); }

   private:
    friend class FusionBuffer;
    Lease(FusionBuffer* home, HostBuffer buffer) : home_(home), buffer_(std::move(buffer)) {}

    FusionBuffer* home_ = nullptr;
    HostBuffer buffer_;
  };

  explicit FusionBuffer(const Memory& memory) : memory_(memory) {}

  // At least `bytes`, not initialised. Throws WorkFailure.
  Lease acquire(std::size_t bytes);

 private:
  const Memory& memory_;
  std::vector<HostBuffer> free_;
};

}  // namespace rueda
