// SPDX-License-Identifier: Apache-2.0
// How a thread's floating point rounds, and what it does with denormals.
#pragma once

#include <cstdint>

namespace rueda {

// Of the calling thread: a word that only use_arithmetic() understands.
std::uint32_t arithmetic();
void use_arithmetic(std::uint32_t arithmetic);

}  // namespace rueda
