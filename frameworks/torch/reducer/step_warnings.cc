// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/step_warnings.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/log.h"

namespace rueda {

void StepWarnings::lost_hooks(Rank rank, int passes) {
  log(LogLevel::warning,
      "rank {}: parameters changed their type, or came to require a gradient, after the optimizer was made, "
      "so backward passes went unheard; taking them for {}. What looked at .grad before this reduction saw "
      "this "
      "rank's own. Prepare the model before making the optimizer, or call zero_grad() after changing it.",
      rank, passes);
}

void StepWarnings::early(Rank rank, int passes, int of) {
  if (std::exchange(told_early_, true)) return;
  log(LogLevel::warning,
      "rank {}: step() after {} of {} backward passes (backward_passes_per_step); the step is made of {}. "
      "Told once.",
      rank, passes, of, passes);
}

void StepWarnings::missing(Rank rank, const std::vector<std::size_t>& parameters) {
  constexpr std::size_t kShown = 8;
  std::string names;
  std::size_t count = 0;
  for (const std::size_t parameter : parameters) {
    if (told_[parameter]) continue;
    told_[parameter] = true;
    if (++count <= kShown) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", names_[parameter]);
  }
  if (count == 0) return;
  if (count > kShown) names += fmt::format(" and {} more", count - kShown);
  log(LogLevel::warning,
      "rank {}: no gradient here, but on other ranks, for {}; it counts as zero. Expected when ranks take "
      "different "
      "ways through the model; each parameter is told once.",
      rank, names);
}

void StepWarnings::late_reduction(Rank rank) {
  if (std::exchange(told_late_, true)) return;
  log(LogLevel::warning,
      "rank {}: all that reached parameters ran in backward passes inside of another (reentrant checkpoints, "
      "or "
      "a backward() in a hook), whose end is not told; so step() waits for their reduction, and what looked "
      "at "
      ".grad before it saw this rank's own. Use the non-reentrant kind, or call synchronize() after "
      "backward(). "
      "Told once.",
      rank);
}

void StepWarnings::nothing(Rank rank) {
  if (std::exchange(told_nothing_, true)) return;
  log(LogLevel::warning,
      "rank {}: step() with no gradient of any parameter on any rank: run backward() before it, on a loss "
      "made of "
      "these parameters. Told once.",
      rank);
}

}  // namespace rueda
