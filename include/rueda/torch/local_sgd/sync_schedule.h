// SPDX-License-Identifier: Apache-2.0
// Schedules of synchronisation: at every step, less often, or one step later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rueda {

// Purpose: selects delayed synchronisation by one value, equal on every rank. The training loop stays the
// same. A plain value.
//
//   schedule        a step()                                                              bytes     memory
//   every_step      reduces gradients, steps                                              1         -
//   accumulate(n)   keeps its gradients; every n-th reduces their mean, and steps         1/n       -
//   local_sgd(h)    steps on this rank's gradients; every h-th averages parameters        1/h       1 copy
//   diloco(h, ...)  the same, and the average is a gradient to an outer SGD (Nesterov)    1/h       2 copies
//   adaptive(r)     local_sgd whose h follows the distance between the ranks              1/h       1 copy
//   one_step_late   steps on the gradients of the step before, which travel meanwhile     1         1 copy
//
// The column "bytes" is relative to every_step. The column "memory" counts copies of the parameters beyond
// those of every_step. For one_step_late it counts copies of the gradients.
class SyncSchedule {
 public:
  // The schedules, one for each row of the table.
  enum class Kind : std::uint8_t { every_step, accumulate, local_sgd, diloco, adaptive, one_step_late };

  // Each function throws InvalidArgument for numbers out of range.
  SyncSchedule() = default;  // every_step
  // Reduces gradients at every step.
  static SyncSchedule every_step() { return {}; }
  // Reduces once in `steps` steps. The other steps keep their gradients, and zero_grad() between them does
  // nothing.
  static SyncSchedule accumulate(std::int64_t steps);
  // Averages the parameters at every `steps`-th step.
  static SyncSchedule local_sgd(std::int64_t steps);
  // Runs an outer SGD with Nesterov momentum on the common parameters. Its gradient is the average movement
  // of the ranks in `steps` steps (DiLoCo, arXiv:2311.08105). The defaults are those of the paper, for
  // hundreds of steps. With few steps they make training diverge.
  static SyncSchedule diloco(std::int64_t steps, double outer_learning_rate = 0.7,
                             double outer_momentum = 0.9);
  // Averages parameters, and adapts the interval h so that the distance of the ranks stays near `target`,
  // which is more than 0. For n ranks with parameters x_i the distance is sqrt(mean |x_i - x|^2 / (n - 1))
  // / |x - x_last|. Here x is the average, and x_last the average before. The distance is 1 if the
  // movements of the ranks have nothing in common.
  //
  // The schedule begins with h = 1. h at most doubles or halves at a time, rounded away from its last
  // value, and stays between 1 and `most_steps`. Adam, RMSprop and LAMB divide by the size of their
  // gradients. So with more noise in a batch they move less far in the common direction. The movement of
  // the average is therefore stretched to the root mean square of the ranks' own movements, at most by
  // `most_stretch`. A value of 1 does not stretch, as is right for SGD.
  static SyncSchedule adaptive(double target = 1.0, std::int64_t most_steps = 5, double most_stretch = 1.5);
  // Reduces gradients during the passes of the next step. That step then uses them.
  static SyncSchedule one_step_late();

  // Reads "every_step", "accumulate:4", "local_sgd:8", "diloco:16:0.7:0.9", "adaptive:1:5:1.5" or
  // "one_step_late". Numbers at the end that have a default may be left out. Throws InvalidArgument for
  // other text.
  static SyncSchedule parse(std::string_view words);
  std::string to_string() const;  // the text that parse() reads

  Kind kind() const { return kind_; }            // the row of the table
  std::int64_t steps() const { return steps_; }  // n or h; for adaptive the largest h
  // The arguments of diloco() and of adaptive().
  double outer_learning_rate() const { return outer_learning_rate_; }
  double outer_momentum() const { return outer_momentum_; }
  double target() const { return target_; }
  double most_stretch() const { return most_stretch_; }
  // Tells whether ranks step by themselves and average their parameters instead of gradients.
  bool averages_parameters() const {
    return kind_ == Kind::local_sgd || kind_ == Kind::diloco || kind_ == Kind::adaptive;
  }

  // Tells whether both are the same schedule.
  friend bool operator==(const SyncSchedule&, const SyncSchedule&) = default;

 private:
  SyncSchedule(Kind kind, std::int64_t steps);

  Kind kind_ = Kind::every_step;
  std::int64_t steps_ = 1;
  double outer_learning_rate_ = 1.0;  // an outer SGD with rate 1 takes the average as it is
  double outer_momentum_ = 0.0;
  double target_ = 0.0;
  double most_stretch_ = 1.0;
};

}  // namespace rueda
