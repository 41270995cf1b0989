// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/elastic/run.h"

#include <fmt/format.h>

#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/elastic/loop.h"
#include "frameworks/torch/reducer/generations.h"
#include "rueda/rueda.h"

namespace rueda::elastic {
namespace {

void begin_next_generation() {
  try {
    shutdown();
  } catch (const Error& error) {  // of the generation that has failed
    if (!may_work_again(error)) throw;
  }
  init();
}

void give_up(StatusCode code, const std::string& first, const std::string& now) {
  throw_if_error({code, fmt::format("{}\nTraining cannot go on with the ranks that are left: only an elastic "
                                    "job can, which ruedarun --min-np starts. Start this one again, from a "
                                    "checkpoint. ({})",
                                    first, now)});
}

// Purpose: counts failures of a job between which nothing was committed. A plain value.
class FailuresInVain {
 public:
  void note(const Error& failure, std::int64_t commits) {
    count_ = commits == commits_ ? count_ + 1 : 1;
    commits_ = commits;
    if (count_ < kMost) return;
    throw_if_error(
        {failure.code(),
         fmt::format("{}\nelastic::run has tried {} times, and no commit came between the failures. "
                     "Mend the cause, or commit more often.",
                     failure.what(), kMost)});
  }

 private:
  static constexpr int kMost = 3;
  int count_ = 0;
  std::int64_t commits_ = -1;  // at the last failure
};

// The same ranks and process sets form the job once more.
void begin_same_job(const std::optional<Error>& failure) {
  const RankLists sets = default_runtime().static_sets();
  const std::vector<Rank> started_as = default_runtime().started_as();
  const Rank ranks = size();
  try {
    shutdown();
    init(sets, started_as);
  } catch (const Error& error) {
    if (failure) give_up(failure->code(), failure->what(), error.what());
    throw;
  }
  if (size() == ranks) return;
  give_up(StatusCode::peer_lost, failure ? failure->what() : "elastic::run",
          fmt::format("the job had {} ranks, and init() has found {}", ranks, size()));
}

}  // namespace

void run(State& state, const std::function<void()>& function) {
  const auto synchronise = [&] {
    Generations::of_process().begin();
    state.sync();
    note_training_state();
  };
  const auto begin_again = [&state, in_vain = FailuresInVain()](const std::optional<Error>& failure) mutable {
    if (is_elastic()) return begin_next_generation();
    if (failure) in_vain.note(*failure, state.commits());
    begin_same_job(failure);
  };
  loop(state, function, {synchronise, begin_again});
}

}  // namespace rueda::elastic
