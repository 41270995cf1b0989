// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/batch_copy.h"

namespace rueda {

bool BatchCopy::possible(DataType from_type, DataType to_type, double factor) {
  auto computes_in_float32 = [](DataType dtype) {
    return dtype == DataType::float16 || dtype == DataType::bfloat16 || dtype == DataType::float32;
  };
  if (from_type == to_type) return factor == 1.0 || is_floating_point(from_type);
  const bool one_is_float32 = from_type == DataType::float32 || to_type == DataType::float32;
  return one_is_float32 && computes_in_float32(from_type) && computes_in_float32(to_type);
}

}  // namespace rueda
