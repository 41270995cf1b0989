// SPDX-License-Identifier: Apache-2.0
// Contiguous stand-ins for tensors of other strides, so that algorithms only see contiguous memory.
#pragma once

#include <cstddef>

#include "core/base/host_buffer.h"
#include "core/base/tensor_view.h"
#include "ops/kernels/pack.h"

namespace rueda {

// Purpose: a tensor's elements in row-major order: its own memory when it is contiguous, else a packed copy.
// Belongs to the Work that reads it.
class ContiguousInput {
 public:
  explicit ContiguousInput(const ConstTensorView& view) : data_(static_cast<const std::byte*>(view.data)) {
    if (view.contiguous()) return;
    copy_ = HostBuffer(view.bytes());
    kernels::pack(copy_.data(), view);
    data_ = copy_.data();
  }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  HostBuffer copy_;
};

// Purpose: where a tensor's elements are to be written in row-major order; `finish` puts them in their
// places.
class ContiguousOutput {
 public:
  explicit ContiguousOutput(TensorView view) : view_(std::move(view)) {
    if (!view_.contiguous()) copy_ = HostBuffer(view_.bytes());
  }
  std::byte* data() const { return view_.contiguous() ? static_cast<std::byte*>(view_.data) : copy_.data(); }
  void finish() {
    if (!view_.contiguous()) kernels::unpack(view_, copy_.data());
  }

 private:
  TensorView view_;
  HostBuffer copy_;
};

}  // namespace rueda
