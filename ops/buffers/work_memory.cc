// SPDX-License-Identifier: Apache-2.0
#include "ops/buffers/work_memory.h"

#include <fmt/format.h>

#include <new>

#include "core/engine/work.h"

namespace rueda {

HostBuffer Memory::get(std::string_view what, std::size_t bytes) const {
  try {
    return make_(bytes);
  } catch (const std::bad_alloc&) {
    throw WorkFailure{fmt::format("it has no memory for {}, {} bytes", what, bytes)};
  }
}

}  // namespace rueda
