// SPDX-License-Identifier: Apache-2.0
// Contiguous stand-ins for tensors of other strides, so that algorithms only see contiguous memory.
#pragma once

#include <cstddef>
#include <memory>

#include "core/base/host_buffer.h"
#include "ops/buffers/work_memory.h"
#include "ops/kernels/pack.h"
#include "rueda/tensor_view.h"

namespace rueda {

// Purpose: a tensor's elements in row-major order: its own memory when it is contiguous, else a packed copy,
// complete when `advance` says that nothing is left to pack. Belongs to the Work that reads it; a pointer,
// for all but strided tensors.
class ContiguousInput {
 public:
  ContiguousInput(const ConstTensorView& view, const Memory& memory)
      : data_(static_cast<const std::byte*>(view.data)) {
    if (!view.contiguous()) strided_ = std::make_unique<Strided>(view, memory);
  }
  // Gets the memory, then packs a piece; false when all is there.
  bool advance() {
    if (!strided_) return false;
    Strided& mine = *strided_;
    if (!mine.begun) {
      mine.copy = mine.memory.get("a contiguous copy of its input", mine.view.bytes());
      mine.packing = kernels::Packing::pack(mine.copy.data(), mine.view);
      mine.begun = true;
    }
    return mine.packing.advance() > 0;
  }
  // After the first advance().
  const std::byte* data() const { return strided_ ? strided_->copy.data() : data_; }

 private:
  struct Strided {
    ConstTensorView view;
    const Memory& memory;
    HostBuffer copy;
    kernels::Packing packing;
    bool begun = false;
  };
  const std::byte* data_;
  std::unique_ptr<Strided> strided_;
};

// Purpose: where a tensor's elements are to be written in row-major order; then `advance` copies them
// there. Belongs to a Work; a pointer, for all but strided tensors.
class ContiguousOutput {
 public:
  ContiguousOutput(const TensorView& view, const Memory& memory) : data_(static_cast<std::byte*>(view.data)) {
    if (!view.contiguous()) strided_ = std::make_unique<Strided>(view, memory);
  }
  // Gets the memory, unless it is there.
  void prepare() {
    if (!strided_ || strided_->copy.size() > 0) return;
    Strided& mine = *strided_;
    mine.copy = mine.memory.get("a contiguous copy of its output", mine.view.bytes());
    mine.unpacking = kernels::Packing::unpack(mine.view, mine.copy.data());
  }
  // After prepare().
  std::byte* data() const { return strided_ ? strided_->copy.data() : data_; }
  // Copies a piece; false when all are there.
  bool advance() { return strided_ && strided_->unpacking.advance() > 0; }

 private:
  struct Strided {
    TensorView view;
    const Memory& memory;
    HostBuffer copy;
    kernels::Packing unpacking;
  };
  std::byte* data_;
  std::unique_ptr<Strided> strided_;
};

}  // namespace rueda
