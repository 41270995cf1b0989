// SPDX-License-Identifier: Apache-2.0
// The process sets that every rank gives to init(): lists of ranks, equal on all ranks.
#pragma once

#include <string>
#include <vector>

#include "rueda/rank_set.h"
#include "rueda/status.h"

namespace rueda {

// The ranks of each set, in any order. Not checked.
using RankLists = std::vector<std::vector<Rank>>;

// "[0-1], [2-3, 7]", "none". Equal for equal sets only, and never long: a longer text ends with its checksum.
std::string in_words(const RankLists& lists);

// Returns the first error of `lists` in a job of `size` ranks; ok if there is none.
Status check_static_sets(const RankLists& lists, Rank size);

// Their members. For lists without an error.
std::vector<RankSet> members_of(const RankLists& lists);

}  // namespace rueda
