// SPDX-License-Identifier: Apache-2.0
// A job of some of the ranks that were started: init() gets a list of them.
#pragma once

#include <string>
#include <vector>

#include "rueda/types.h"

namespace rueda {

// Throws InvalidArgument where `ranks` is no list of different ranks among `started`, with rank `own` in it.
void check_ranks_of_job(const std::vector<Rank>& ranks, Rank started, Rank own);
// All that were started, in their order.
bool are_all_ranks(const std::vector<Rank>& ranks, Rank started);
// "the job begins when each of the ranks [2, 0] calls init() with this list, in this order"
std::string condition_of_start(const std::vector<Rank>& ranks);

}  // namespace rueda
