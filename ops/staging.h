// SPDX-License-Identifier: Apache-2.0
// Contiguous stand-ins for tensors of other strides, so that algorithms only see contiguous memory.
#pragma once

#include <cstddef>

#include "core/base/host_buffer.h"
#include "core/base/tensor_view.h"
#include "ops/kernels/pack.h"
#include "ops/memory.h"

namespace rueda {

// Purpose: a tensor's elements in row-major order: its own memory when it is contiguous, else a packed copy,
// complete when `advance` says that nothing is left to pack. Belongs to the Work that reads it.
class ContiguousInput {
 public:
  ContiguousInput(const ConstTensorView& view, const Memory& memory) : view_(view), memory_(memory) {}
  // Gets the memory, then packs a piece; false when all is there.
  bool advance() {
    if (!begun_ && !view_.contiguous()) {
      copy_ = memory_.get("a contiguous copy of its input", static_cast<std::size_t>(view_.bytes()));
      packing_ = kernels::Packing::pack(copy_.data(), view_);
    }
    begun_ = true;
    return packing_.advance() > 0;
  }
  // After the first advance().
  const std::byte* data() const {
    return view_.contiguous() ? static_cast<const std::byte*>(view_.data) : copy_.data();
  }

 private:
  ConstTensorView view_;
  const Memory& memory_;
  bool begun_ = false;
  HostBuffer copy_;
  kernels::Packing packing_;
};

// Purpose: where a tensor's elements are to be written in row-major order; then `advance` puts them in their
// places.
class ContiguousOutput {
 public:
  ContiguousOutput(TensorView view, const Memory& memory) : view_(std::move(view)), memory_(memory) {}
  // Gets the memory, unless it is there.
  void prepare() {
    if (view_.contiguous() || copy_.size() > 0 || view_.bytes() == 0) return;
    copy_ = memory_.get("a contiguous copy of its output", static_cast<std::size_t>(view_.bytes()));
    unpacking_ = kernels::Packing::unpack(view_, copy_.data());
  }
  // After prepare().
  std::byte* data() const { return view_.contiguous() ? static_cast<std::byte*>(view_.data) : copy_.data(); }
  // Moves a piece to its place; false when all are there.
  bool advance() { return unpacking_.advance() > 0; }

 private:
  TensorView view_;
  const Memory& memory_;
  HostBuffer copy_;
  kernels::Packing unpacking_;
};

}  // namespace rueda
