// SPDX-License-Identifier: Apache-2.0
// A JobView that hears of a training whose times are known.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "launcher/view/job_view.h"
#include "tests/unit/launcher/view/simulated_steps.h"

namespace rueda {

inline const JobView::Time kViewBegin{std::chrono::hours(1)};
inline constexpr std::int64_t kViewBeginNs = 3'600'000'000'000;

// A job of ranks on one host, whose clock is that of ruedarun.
class SimulatedJob {
 public:
  SimulatedJob(int ranks, SimulatedSteps::Extra extra, bool elastic = false)
      : view({.command = "train", .started_at = 1000, .started = kViewBegin, .elastic = elastic}),
        ranks_(ranks),
        steps_(ranks, std::move(extra)) {
    view.add_host("h0");
    for (int rank = 0; rank < ranks; ++rank) {
      view.add_rank(rank, 0);
      view.started(rank, 0, 100 + rank);
    }
  }

  void run(int count) {
    for (int i = 0; i < count; ++i, ++step_) {
      const auto spans = steps_.next();
      for (int rank = 0; rank < ranks_; ++rank) {
        if (silent.contains(rank)) continue;
        agents::Observed news = of(rank, Phase::forward);
        news.step = step_ + 1;
        for (const RankSpan& span : spans[static_cast<std::size_t>(rank)])
          news.spans.push_back(
              {span.phase, span.step, kViewBeginNs + span.begin_ns, kViewBeginNs + span.end_ns});
        view.hear(0, news, now());
      }
    }
  }
  void say(int rank, Phase phase) {
    agents::Observed news = of(rank, phase);
    news.step = step_;
    view.hear(0, news, now());
  }
  JobView::Time now() const { return kViewBegin + std::chrono::nanoseconds(steps_.now()) + later; }

  // The workers of the job from now on.
  void begin_generation(std::uint64_t number, const std::set<int>& workers) {
    generation_ = number;
    since_ns_ = kViewBeginNs + steps_.now();
    for (int worker = 0; worker < ranks_; ++worker)
      workers.contains(worker) ? silent.erase(worker) : silent.insert(worker).second;
    view.generation(number, workers, now());
  }
  agents::Observed of(int rank, Phase phase) const {
    return {.rank = rank,
            .now_ns = kViewBeginNs + steps_.now() + later.count(),
            .has_training = true,
            .generation = generation_,
            .generation_since_ns = since_ns_,
            .total_steps = 1000,
            .samples_per_step = 8,
            .phase = phase,
            .phase_since_ns = kViewBeginNs + steps_.now()};
  }

  JobView view;
  std::chrono::nanoseconds later{0};
  std::set<int> silent;  // they train nothing

 private:
  const int ranks_;
  std::uint64_t generation_ = 0;
  std::int64_t since_ns_ = 0;
  SimulatedSteps steps_;
  std::uint64_t step_ = 0;
};

inline bool has_event(const nlohmann::json& update, const std::string& kind) {
  return update.contains("events") && std::ranges::any_of(update["events"], [&](const nlohmann::json& event) {
           return event["kind"] == kind;
         });
}

}  // namespace rueda
