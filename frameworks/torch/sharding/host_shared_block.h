// SPDX-License-Identifier: Apache-2.0
// One block of memory for all ranks, if they are on one host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/engine/runtime.h"

namespace rueda {

// A block that all ranks of the job have mapped; zeroes. Null on all ranks where that cannot be: several
// hosts, a single rank, no shared memory, too little of it (then rank 0 warns: each has its own copy of
// `subject`). Collective, under `name`.
std::shared_ptr<std::byte> share_one_block(const std::string& name, const std::string& subject,
                                           std::size_t bytes, Runtime& runtime);

}  // namespace rueda
