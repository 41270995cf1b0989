// SPDX-License-Identifier: Apache-2.0
// Marks of the training loop: its phases, steps and scalars. The live page of ruedarun shows them.
#pragma once

#include <cstdint>
#include <string_view>

namespace rueda {

// The phases of a training loop. The optimizers of Rueda mark `backward`, `wait` and `step` on their own.
enum class Phase : std::uint8_t {
  other,  // before the first mark, or between parts of a step
  data,   // the loop waits for samples
  forward,
  backward,    // from the first gradient of a step on
  wait,        // for the results of reductions
  step,        // of the optimizer
  evaluation,  // of the model
  checkpoint,  // a file is written
  garbage,     // Python collects objects
};
inline constexpr int kPhaseCount = 9;
std::string_view to_string(Phase phase);  // "data"

// Purpose: this process is in a phase as long as the object lives. Then the phase before comes back, unless
// another one has begun; behind `data`, `forward` begins. A scope on the stack of one thread. Any thread may
// make one.
class PhaseScope {
 public:
  // Begins `phase`.
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

  // Of `data`: there are no more samples, so the phase before comes back.
  void end_of_samples() { has_samples_ = false; }

 private:
  Phase phase_;
  Phase before_;
  bool has_samples_;
};

// All functions here may be called by any thread, also before init() and after shutdown(). They do nothing in
// a forked child.

// Adds a point to the curve of `tag`. A negative `step` is the present one. The page keeps 64 tags, and the
// first 64 bytes of a name. A curve has 512 points at most: a long one keeps each 2nd, 4th, 8th of them.
void log_scalar(std::string_view tag, double value, std::int64_t step = -1);

// The length of the run, and this rank's samples in each step. 0: unknown. `steps_done`: so many have ended,
// for a training that goes on from a checkpoint; a negative number leaves the count as it is. Throws
// InvalidArgument if one of the others is negative.
void describe_training(std::int64_t total_steps, std::int64_t samples_per_step, std::int64_t steps_done = -1);

// Counts a step. The next phase is `forward`. In a loop that marks its samples as `data`, `forward` begins
// behind them, and what comes before is `other`. For loops without one of Rueda's optimizers: each of these
// counts its own steps.
void end_step();

}  // namespace rueda
