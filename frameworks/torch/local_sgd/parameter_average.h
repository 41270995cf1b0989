// SPDX-License-Identifier: Apache-2.0
// Parameters that ranks step by themselves and average now and then.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"
#include "rueda/torch/local_sgd/sync_schedule.h"

namespace torch::serialize {
class OutputArchive;
class InputArchive;
}  // namespace torch::serialize

namespace rueda {

// Purpose: the action of the schedules local_sgd, diloco and adaptive after a step. Keeps the values that all
// ranks last had in common; ranks reduce the way they have gone since, in the parameters' own memory. Used by
// the thread that steps; belongs to a GradientReducer.
class ParameterAverage {
 public:
  // Collective: all parameters get the values of the scope's first rank.
  ParameterAverage(std::vector<at::Tensor> parameters, std::vector<std::string> names,
                   const SyncSchedule& schedule, Compression compression, double compression_share,
                   const Scope& scope);

  // This rank is about to step.
  void before_step();
  // This rank has stepped. If an average is due: waits for all ranks; afterwards they have the same
  // parameters. Throws, naming the parameter, when that fails; this rank then has the last common values.
  void after_step();
  // Averages now, unless no rank has stepped since. Collective.
  void flush();
  // Steps since ranks last had the same parameters.
  std::int64_t steps_apart() const { return steps_apart_; }
  // Steps from one average to the next.
  std::int64_t interval() const { return interval_; }
  // Of schedule adaptive, at the last average: the value that it keeps near the target. 0 before.
  double drift() const { return drift_; }
  double wait_seconds() const { return wait_seconds_; }

  // In addition to the optimizer's own state: the interval, and the outer momentum. Loading the state of
  // another schedule, or none, begins anew.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  void synchronize();
  Status reduce();
  double adapt(double own_squares);
  void step_outer();

  const std::vector<at::Tensor> parameters_;
  const std::vector<std::string> names_;
  const SyncSchedule schedule_;
  const Reduction reduction_;
  const ScopeReference scope_;
  std::string prefix_;
  std::vector<at::Tensor> common_;    // the common values of all ranks at the last average
  std::vector<at::Tensor> momentum_;  // of the outer SGD; empty without
  std::int64_t interval_;
  std::int64_t steps_apart_ = 0;
  double drift_ = 0.0;
  double wait_seconds_ = 0.0;
};

}  // namespace rueda
