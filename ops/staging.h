// SPDX-License-Identifier: Apache-2.0
// Contiguous stand-ins for tensors of other strides, so that algorithms only see contiguous memory.
#pragma once

#include <cstddef>

#include "core/base/host_buffer.h"
#include "core/base/tensor_view.h"
#include "ops/kernels/pack.h"

namespace rueda {

// Purpose: a tensor's elements in row-major order: its own memory when it is contiguous, else a packed copy,
// complete when `advance` says that nothing is left to pack. Belongs to the Work that reads it.
class ContiguousInput {
 public:
  explicit ContiguousInput(const ConstTensorView& view) : data_(static_cast<const std::byte*>(view.data)) {
    if (view.contiguous()) return;
    copy_ = HostBuffer(view.bytes());
    packing_ = kernels::Packing::pack(copy_.data(), view);
    data_ = copy_.data();
  }
  // Packs a piece; false when all is there.
  bool advance() { return packing_.advance() > 0; }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  HostBuffer copy_;
  kernels::Packing packing_;
};

// Purpose: where a tensor's elements are to be written in row-major order; then `advance` puts them in their
// places.
class ContiguousOutput {
 public:
  explicit ContiguousOutput(TensorView view) : view_(std::move(view)) {
    if (view_.contiguous()) return;
    copy_ = HostBuffer(view_.bytes());
    unpacking_ = kernels::Packing::unpack(view_, copy_.data());
  }
  std::byte* data() const { return view_.contiguous() ? static_cast<std::byte*>(view_.data) : copy_.data(); }
  // Moves a piece to its place; false when all are there.
  bool advance() { return unpacking_.advance() > 0; }

 private:
  TensorView view_;
  HostBuffer copy_;
  kernels::Packing unpacking_;
};

}  // namespace rueda
