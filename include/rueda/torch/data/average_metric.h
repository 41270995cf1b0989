// SPDX-License-Identifier: Apache-2.0
// Averages metrics over the samples of all ranks.
#pragma once

#include <string>
#include <vector>

#include "rueda/rueda.h"

namespace rueda {

// Returns the mean over the samples of all ranks, in float64, equal on every rank. `value` is the mean of
// this rank over its `count` samples. With a count of 0 the value is ignored. `name` pairs the calls of the
// ranks. Throws InvalidArgument with the same text on every rank if a count is negative or NaN, or if all
// counts are 0.
double average_metric(double value, double count, const std::string& name, const Scope& scope = {});
// Averages several values over the same samples in one operation.
std::vector<double> average_metric(const std::vector<double>& values, double count, const std::string& name,
                                   const Scope& scope = {});

}  // namespace rueda
