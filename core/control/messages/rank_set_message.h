// SPDX-License-Identifier: Apache-2.0
// A RankSet as ranks send it to one another.
#pragma once

#include "core/base/bytes.h"
#include "rueda/rank_set.h"

namespace rueda {

// Writes the set.
void write(Writer& writer, const RankSet& set);
// The set that was written. The reader fails when there is none.
RankSet read_rank_set(Reader& reader);

}  // namespace rueda
