// SPDX-License-Identifier: Apache-2.0
#include "core/control/autotune/autotuner.h"

#include <algorithm>
#include <utility>

namespace rueda {
namespace {

constexpr int kInARow = 3;  // steps that make a pattern
constexpr std::size_t kMostPatterns = 4;

}  // namespace

Autotuner::Autotuner(const TuningSearch::Settings& settings, FusionPlanner::ChooseBackend first_backend,
                     FusionPlanner::ChooseBackend second_backend)
    : settings_(settings),
      replay_{std::move(first_backend), std::move(second_backend)},
      parameters_(settings.defaults) {}

bool Autotuner::ready(const SharedRequest& request, Time now) {
  const std::optional<StepDetector::Step> step = watch_.ready(request, now);
  if (!step) return false;
  ended(*step);
  return active_ != nullptr &&
         std::exchange(parameters_, active_->search.parameters()) != active_->search.parameters();
}

void Autotuner::ended(const StepDetector::Step& step) {
  ++steps_;
  in_a_row_ = step.pattern == last_mark_ ? in_a_row_ + 1 : 1;
  last_mark_ = step.pattern;
  if (active_ != nullptr && step.pattern == active_->mark) {
    active_->last_step = steps_;
    active_->search.step(step);
  } else if (in_a_row_ >= kInARow) {
    active_ = &pattern(step.pattern);
    active_->search.interrupted();
  } else if (active_ != nullptr) {
    active_->search.interrupted();
  }
  if (active_ != nullptr) std::ranges::move(active_->search.take_records(), std::back_inserter(records_));
}

Autotuner::Pattern& Autotuner::pattern(std::uint64_t mark) {
  auto found = std::ranges::find(patterns_, mark, &Pattern::mark);
  if (found == patterns_.end()) {
    const TuningParameters start = active_ == nullptr ? settings_.defaults : active_->search.best();
    if (patterns_.size() == kMostPatterns)
      patterns_.erase(std::ranges::min_element(patterns_, {}, &Pattern::last_step));
    found = patterns_.insert(patterns_.end(), {mark, 0, TuningSearch(++known_, settings_, start, replay_)});
  }
  found->last_step = steps_;
  return *found;
}

void Autotuner::end() {
  for (Pattern& pattern : patterns_) {
    pattern.search.end();
    std::ranges::move(pattern.search.take_records(), std::back_inserter(records_));
  }
  if (known_ > 0) return;
  TuningRecord line;
  line.state = "verdict";
  line.parameters = parameters_;
  line.words = "keeps the defaults: no allreduces of the same names came again in the same steps";
  records_.push_back(std::move(line));
}

TunerNews Autotuner::take_news() { return {std::exchange(records_, {}), parameters_}; }

}  // namespace rueda
