// SPDX-License-Identifier: Apache-2.0
// When ranks synchronise: at every step, or less often, or a step later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rueda {

// Purpose: delayed synchronisation as one value, equal on every rank; the training loop stays as it is. A
// plain value.
//
//   schedule        a step()                                                              bytes     memory
//   every_step      reduces gradients, steps                                              1         -
//   accumulate(n)   keeps its gradients; every n-th reduces their mean, and steps         1/n       -
//   local_sgd(h)    steps on this rank's gradients; every h-th averages parameters        1/h       1 copy
//   diloco(h, ...)  the same, and the average is a gradient to an outer SGD (Nesterov)    1/h       2 copies
//   adaptive(r)     local_sgd whose h follows how far the ranks part                      1/h       1 copy
//   one_step_late   steps on the gradients of the step before, which travel meanwhile     1         1 copy
//
// bytes: reduced in a step, of those of every_step. memory: beyond that of every_step, copies of the
// parameters (of the gradients for one_step_late).
class SyncSchedule {
 public:
  // The rows of the table.
  enum class Kind : std::uint8_t { every_step, accumulate, local_sgd, diloco, adaptive, one_step_late };

  // Each throws InvalidArgument for numbers that cannot mean anything.
  SyncSchedule() = default;  // every_step
  static SyncSchedule every_step() { return {}; }
  // Of n steps the first n-1 only keep their gradients, and zero_grad() between them does nothing.
  static SyncSchedule accumulate(std::int64_t steps);
  // An average of the parameters at every `steps`-th step.
  static SyncSchedule local_sgd(std::int64_t steps);
  // What the ranks have moved on average in `steps` steps is what an SGD with Nesterov momentum makes of the
  // parameters they have in common (DiLoCo, arXiv:2311.08105, whose values these are, for hundreds of steps;
  // for few of them these values go too far, and training diverges).
  static SyncSchedule diloco(std::int64_t steps, double outer_learning_rate = 0.7,
                             double outer_momentum = 0.9);
  // Keeps the ranks' distance from their average, as a part of the way that the average has gone since the
  // ranks were last equal, near `target`, which is greater than 0: sqrt(mean |x_i - x|^2 / (n - 1)) / |x -
  // x_last| of n ranks, which is 1 where their ways have nothing in common. It starts with an average at
  // every step; h at most doubles or halves, rounded away from what it was, and stays between 1 and
  // `most_steps`. An optimizer that divides by the size of its gradients (Adam, RMSprop, LAMB) goes less far
  // in the common direction where a batch has more noise, as each rank's own has: so the way of the average
  // is made as long as the ranks' own are (the root of their mean square), at most `most_stretch` times as
  // long as it is. 1 takes the average as it is, which is right for SGD.
  static SyncSchedule adaptive(double target = 1.0, std::int64_t most_steps = 5, double most_stretch = 1.5);
  // Gradients travel beside the passes of the next step, which steps on them.
  static SyncSchedule one_step_late();

  // "every_step", "accumulate:4", "local_sgd:8", "diloco:16:0.7:0.9", "adaptive:1:5:1.5", "one_step_late";
  // numbers at the end that have a default may be left out. Throws InvalidArgument for other words.
  static SyncSchedule parse(std::string_view words);
  std::string to_string() const;  // what parse() reads

  Kind kind() const { return kind_; }            // which row
  std::int64_t steps() const { return steps_; }  // n or h; of adaptive: the most
  // What diloco() was given; what adaptive() was given.
  double outer_learning_rate() const { return outer_learning_rate_; }
  double outer_momentum() const { return outer_momentum_; }
  double target() const { return target_; }
  double most_stretch() const { return most_stretch_; }
  // Whether ranks step by themselves and average their parameters, and their gradients never.
  bool averages_parameters() const {
    return kind_ == Kind::local_sgd || kind_ == Kind::diloco || kind_ == Kind::adaptive;
  }

  // Whether they mean the same.
  friend bool operator==(const SyncSchedule&, const SyncSchedule&) = default;

 private:
  SyncSchedule(Kind kind, std::int64_t steps);

  Kind kind_ = Kind::every_step;
  std::int64_t steps_ = 1;
  double outer_learning_rate_ = 1.0;  // of an outer SGD that takes the average as it is
  double outer_momentum_ = 0.0;
  double target_ = 0.0;
  double most_stretch_ = 1.0;
};

}  // namespace rueda
