// SPDX-License-Identifier: Apache-2.0
// Finds out that the ranks of a set have asked for different things.
#pragma once

#include "core/control/negotiation/readiness.h"
#include "rueda/rank_set.h"
#include "rueda/status.h"

namespace rueda {

// Why an operation cannot be carried out, in words for all ranks; ok if it can. Asked at rank 0, when
// everybody who could report it has done so. Members that have not reported it have joined, or are among
// `departed`. `full_join`: joined ranks take part in every operation, except a broadcast of their own.
Status disagreement(const Readiness& readiness, const RankSet& members, const RankSet& departed,
                    bool full_join);

}  // namespace rueda
