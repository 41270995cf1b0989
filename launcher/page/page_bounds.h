// SPDX-License-Identifier: Apache-2.0
// The bounds of a page's connections.
#pragma once

#include <chrono>
#include <cstddef>

namespace rueda {

// Purpose: how long a client may take, and how much it may send. A plain value.
struct PageBounds {
  std::chrono::milliseconds idle{5000};      // until the first byte of a request
  std::chrono::milliseconds request{5000};   // from there to its last byte
  std::chrono::milliseconds writing{10000};  // without a byte that the client takes
  std::size_t request_bytes = 64 << 10;
};

}  // namespace rueda
