// SPDX-License-Identifier: Apache-2.0
// Whether all ranks mean the same thing, asked before anything is done that would wait for ever if they do
// not; and whether all have done it.
#pragma once

#include <string>
#include <vector>

#include "rueda/process_set.h"

namespace rueda {

// Returns when every rank of the scope has called it with the same `lines`. Else throws Mismatch, in the same
// words on every rank: `subject`, the first line that differs, the lines of the ranks there, and `remedy`.
// Collective, under `name`; one round trip when all agree.
void check_agreement(const std::string& name, const std::string& subject,
                     const std::vector<std::string>& lines, const Scope& scope,
                     const std::string& remedy = "Make them the same on every rank.");

// Every rank of the scope says why it failed, or nothing. Empty when nobody failed; else which ranks did and
// why, in the same words on every rank. Collective, under `name`; one round trip when all is well.
std::string failures_of_all(const std::string& name, const std::string& failure, const Scope& scope);

// Throws InvalidArgument, naming `what`, unless this rank and `root` (by its number in the job) are of the
// scope.
void check_members(Rank root, const Scope& scope, const std::string& what);

}  // namespace rueda
