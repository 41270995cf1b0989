// SPDX-License-Identifier: Apache-2.0
// The numbers of a training's steps, and the texts made of them for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "examples/lib/reporting/run_report.h"

namespace rueda::examples {

// The kept numbers of one step.
struct StepNumbers {
  double loss = 0;
  double learning_rate = 0;
  double seconds = 0;
  double samples = 0;  // of all ranks
  NamedNumbers parts;  // of the loss
};

// Numbers for every step that has been done, also before the run was resumed. `losses`, and each of `parts`,
// are this rank's until they are averaged. A plain value.
struct StepHistory {
  std::vector<double> losses;
  std::vector<double> learning_rates;
  std::vector<double> seconds;
  std::vector<double> samples;
  std::vector<std::pair<std::string, std::vector<double>>> parts;  // by name: one number for each step
  std::size_t averaged = 0;  // number of first steps with losses averaged over all ranks

  // Every step must have parts of the same names.
  void add(const StepNumbers& step);
  // Forgets later ones.
  void keep_first(std::size_t steps);
};

// At most `most` points: each the mean of some steps that follow one another, named by the last of them.
std::vector<CurvePoint> curve(const StepHistory& history, std::size_t most = 500);

// The middle one; of an even number the upper of both; 0 for none.
double median(std::vector<double> values);

// How one step's time was spent, in seconds.
struct StepTime {
  double whole = 0;
  double data = 0;  // until the batches were there
  double wait = 0;  // for other ranks
  double cpu = 0;   // processor time of all threads
};

// Of the steps of this process, in milliseconds: medians, and the mean of cpu. `total` is a sum.
struct StepSplit {
  double total = 0;
  double step = 0;
  double data = 0;
  double compute = 0;  // the time of neither data nor waiting
  double wait = 0;
  double cpu = 0;
};

StepSplit split_of(const std::vector<StepTime>& times);

}  // namespace rueda::examples
