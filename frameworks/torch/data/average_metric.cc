// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/data/average_metric.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "frameworks/torch/collectives/agreement.h"

namespace rueda {

double average_metric(double value, double count, const std::string& name, const Scope& scope) {
  return average_metric(std::vector{value}, count, name, scope).front();
}

std::vector<double> average_metric(const std::vector<double>& values, double count, const std::string& name,
                                   const Scope& scope) {
  std::string objection;
  if (!std::isfinite(count) || count < 0) {
    objection = fmt::format("the count is {}; it must be a number of samples", count);
    count = std::numeric_limits<double>::quiet_NaN();  // which makes every rank's sum one
  }
  std::vector<double> sums;
  for (double value : values) sums.push_back(count == 0 ? 0.0 : value * count);
  sums.push_back(count);
  const TensorView both = view(sums);
  allreduce_async("average_metric." + name, both, both, {ReduceOp::sum}, scope).wait();
  const double total = sums.back();
  sums.pop_back();
  if (std::isnan(total)) {
    refuse(fmt::format("average_metric '{}': {}", name,
                       failures_of_all("average_metric." + name + ".failures", objection, scope)));
  }
  if (total == 0) {
    refuse(
        fmt::format("average_metric '{}': the count is 0 on every rank, so there is no mean; evaluate at "
                    "least one sample on one rank",
                    name));
  }
  for (double& sum : sums) sum /= total;
  return sums;
}

}  // namespace rueda
