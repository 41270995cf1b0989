// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/collectives/empty.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/tensor_adapter.h"

namespace rueda {

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, Runtime& runtime) {
  const Shape shape(sizes.begin(), sizes.end());
  const std::optional<std::int64_t> bytes = checked_byte_count(shape, data_type_for(dtype, "empty"));
  if (!bytes) {
    throw InvalidArgument(
        Status::invalid_argument(fmt::format("rueda::empty: the shape {} is impossible", to_string(shape))));
  }
  const std::shared_ptr<std::byte> memory = runtime.allocate(static_cast<std::size_t>(*bytes));
  return at::from_blob(
      memory.get(), sizes, [memory](void*) {}, at::TensorOptions(dtype));
}

}  // namespace rueda
