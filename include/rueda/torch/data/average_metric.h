// SPDX-License-Identifier: Apache-2.0
// Metrics over all ranks' samples, as one process would have them.
#pragma once

#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda {

// The mean of `value` over all samples: sum of value * count over sum of count, in float64, the same on every
// rank. `value` is this rank's mean over its `count` samples; with count 0 it does not matter. `name` pairs
// the ranks' calls. Throws InvalidArgument, in the same words on every rank, for a count that is negative or
// not a number on some rank, and when there is no sample on any.
double average_metric(double value, double count, const std::string& name, const Scope& scope = {});
// Several means over the same samples, in one operation.
std::vector<double> average_metric(const std::vector<double>& values, double count, const std::string& name,
                                   const Scope& scope = {});

}  // namespace rueda
