// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>

#include "core/base/bytes.h"

namespace rueda {

// Of a message; other ones for another seed.
inline Bytes some_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace rueda
