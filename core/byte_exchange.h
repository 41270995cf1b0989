// SPDX-License-Identifier: Apache-2.0
// Bytes of any number between ranks: sizes first.
#pragma once

#include <string>
#include <vector>

#include "rueda/process_set.h"

namespace rueda {

// Both are collective among the scope's ranks, under names that begin with `name`.

// `bytes` of rank root (its number in the job), on every rank.
void broadcast_bytes(std::string& bytes, Rank root, const std::string& name, const Scope& scope);
// The bytes of each rank, by its index in the scope.
std::vector<std::string> allgather_bytes(const std::string& bytes, const std::string& name,
                                         const Scope& scope);

}  // namespace rueda
