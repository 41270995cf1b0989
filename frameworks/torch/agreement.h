// SPDX-License-Identifier: Apache-2.0
// Whether all ranks mean the same thing, asked before anything is done that would wait for ever if they do
// not.
#pragma once

#include <string>
#include <vector>

#include "core/process_set.h"

namespace rueda {

// Returns when every rank of the scope has called it with the same `lines`. Else throws Mismatch, in the same
// words on every rank: `subject`, the first line that differs, and which ranks have what there. Collective,
// under `name`; one round trip when all agree.
void check_agreement(const std::string& name, const std::string& subject,
                     const std::vector<std::string>& lines, const Scope& scope);

}  // namespace rueda
