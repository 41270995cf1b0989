// SPDX-License-Identifier: Apache-2.0
#include "ops/buffers/fusion_buffer.h"

#include <algorithm>

namespace rueda {

// The smallest free buffer that is large enough; else the largest gives way to a new one.
FusionBuffer::Lease FusionBuffer::acquire(std::size_t bytes) {
  auto size = [](const HostBuffer& buffer) { return buffer.size(); };
  std::ranges::sort(free_, {}, size);
  auto found = std::ranges::find_if(free_, [&](const HostBuffer& buffer) { return buffer.size() >= bytes; });
  if (found == free_.end()) {
    if (!free_.empty()) free_.pop_back();
    return {this, memory_.get("the fusion buffer", bytes)};
  }
  HostBuffer buffer = std::move(*found);
  free_.erase(found);
  return {this, std::move(buffer)};
}

}  // namespace rueda
