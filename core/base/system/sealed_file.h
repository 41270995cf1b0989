// SPDX-License-Identifier: Apache-2.0
// Files in memory that another process may map.
#pragma once

#include <cstddef>

#include "core/base/system/descriptor.h"

namespace rueda {

// A file of zeros that keeps this length for ever. None where the system refuses it.
Descriptor sealed_file(const char* name, std::size_t bytes);

}  // namespace rueda
