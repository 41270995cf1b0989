// SPDX-License-Identifier: Apache-2.0
// Many tensors copied at once: what packs them into a buffer, and takes them out again.
#pragma once

#include <cstdint>
#include <vector>

#include "rueda/types.h"

namespace rueda {

struct CopyPiece {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t elements = 0;
};

// Purpose: copies of elements of `from_type` to elements of `to_type`, times `factor`, all of them at once.
// Any type will do if both types are the same and the factor is 1. Else both are float16, bfloat16 or float32
// (one of them float32, or both the same), or both float64. Computed in float32, or float64, and rounded
// once, as the kernels of the host do. A plain value.
struct BatchCopy {
  DataType from_type = DataType::float32;
  DataType to_type = DataType::float32;
  double factor = 1.0;
  std::vector<CopyPiece> pieces;

  static bool possible(DataType from_type, DataType to_type, double factor);
};

}  // namespace rueda
