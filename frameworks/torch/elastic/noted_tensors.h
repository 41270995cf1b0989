// SPDX-License-Identifier: Apache-2.0
// Detects changes of tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rueda::elastic {

// Purpose: notes tensors and their versions, and later detects a change of any. A change by set_data()
// or by a fused kernel has no version. A value; one thread.
class NotedTensors {
 public:
  void note(const at::Tensor& tensor);
  bool changed() const;

 private:
  struct Noted {
    at::Tensor tensor;
    std::int64_t version;
    const void* address;
  };
  std::vector<Noted> noted_;
};

}  // namespace rueda::elastic
