// SPDX-License-Identifier: Apache-2.0
// The training loop, and what it measured.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "examples/lib/data/features.h"
#include "examples/lib/training/options.h"

namespace torch::nn {
class Module;
}

namespace rueda::examples {

class BertForQuestionAnswering;

// What a step was like; told while training on every rank.
struct StepReport {
  std::int64_t step;  // from 0
  double loss;        // of this rank
  double learning_rate;
  double gradient_norm;  // before clipping; 0 without clipping, and where the schedule takes no step
  std::int64_t sync_interval = 1;  // steps from one synchronisation to the next
  double drift = 0;                // of schedule adaptive, at the last
};

struct TrainingResult {
  std::vector<double> losses;     // of each step, averaged over ranks
  double samples_per_second = 0;  // of all ranks together; 0 without steps
  // Each the median over the steps, averaged over ranks: a step, its waiting for other ranks, and the rest of
  // it.
  double step_ms = 0;
  double compute_ms = 0;
  double wait_ms = 0;
  double reduced_mb = 0;  // bytes that this rank gave to allreduce, in 10^6
  double cpu_ms = 0;      // processor time of a step, all threads; mean over steps and ranks
};

using StepListener = std::function<void(const StepReport&)>;

// Trains `model` on the windows for options.steps steps; collective, after rueda::init(). Ranks that
// synchronize must start with equal parameters. `listener` runs on the calling thread after every step.
TrainingResult train(BertForQuestionAnswering& model, std::span<const Feature> windows,
                     const TrainOptions& options, const StepListener& listener);

// Throws std::runtime_error naming the ranks whose parameters differ from rank 0's; collective.
void check_equal_on_all_ranks(std::uint64_t hash);

}  // namespace rueda::examples
