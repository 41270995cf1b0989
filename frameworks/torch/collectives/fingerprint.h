// SPDX-License-Identifier: Apache-2.0
// A number by which ranks compare memory without sending it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rueda {

// 64 bits of the bytes and of how many there are: the same on every machine of this byte order, and another
// whenever a single aligned word of eight bytes differs. At about the speed of memory. Not for secrets.
std::uint64_t fingerprint(std::span<const std::byte> bytes);

}  // namespace rueda
