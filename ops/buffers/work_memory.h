// SPDX-License-Identifier: Apache-2.0
// Memory that Works need for a while.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "core/base/host_buffer.h"

namespace rueda {

// Purpose: where the Works of a backend get memory from; what is missing is a failure of the Work that wants
// it. Owned by a backend, used by the background thread.
class Memory {
 public:
  // Makes so many bytes, or throws std::bad_alloc.
  using Make = std::function<HostBuffer(std::size_t bytes)>;

  explicit Memory(Make make = [](std::size_t bytes) { return HostBuffer(bytes); }) : make_(std::move(make)) {}

  // Not initialised. Throws WorkFailure naming `what` it was for.
  HostBuffer get(std::string_view what, std::size_t bytes) const;

 private:
  Make make_;
};

}  // namespace rueda
