// SPDX-License-Identifier: Apache-2.0
#include "core/engine/entry.h"

#include "core/base/host_buffer.h"

namespace rueda {

TensorView allocate_output(Entry& entry, const Shape& shape) {
  HandleState& handle = *entry.handle;
  const DataType dtype = entry.request().dtype;
  if (entry.submission.allocate) {
    handle.output = entry.submission.allocate(dtype, shape);
  } else {
    handle.output = {nullptr, dtype, shape, {}};
    auto memory = std::make_shared<HostBuffer>(handle.output.bytes());
    handle.output.data = memory->data();
    handle.output_memory = std::move(memory);
  }
  return handle.output;
}

}  // namespace rueda
