// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/elastic/run.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/elastic/loop.h"
#include "frameworks/torch/reducer/generations.h"
#include "rueda/rueda.h"
#include "rueda/torch/collectives/operations.h"

namespace rueda::elastic {
namespace {

void begin_next_generation() {
  try {
    shutdown();
  } catch (const Error& error) {  // of the generation that has failed
    if (!may_succeed_later(error)) throw;
  }
  init();
}

void give_up(StatusCode code, const std::string& first, const std::string& now) {
  throw_if_error({code, fmt::format("{}\nTraining cannot go on with the ranks that are left: only an elastic "
                                    "job can, which ruedarun --min-np starts. Start this one again, from a "
                                    "checkpoint. ({})",
                                    first, now)});
}

// Purpose: counts failures of a job between which nothing was committed, and no worker came or went. A plain
// value.
class FailuresInVain {
 public:
  void note(const Error& failure, std::int64_t commits, std::uint64_t changes) {
    const std::pair now(commits, changes);
    count_ = now == last_ ? count_ + 1 : 1;
    last_ = now;
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
  std::pair<std::int64_t, std::uint64_t> last_ = {-1, 0};  // of both, at the last failure
};

// Counts the workers that have come or gone since this process has come in.
std::uint64_t changes_of_workers() {
  const auto membership = metrics().membership;
  return membership.lost + membership.joined;
}

// The other ranks are in a later call of run().
struct RunIsOver {};

// In an elastic job the ranks find out in which of their calls of run() they are. A new worker comes to the
// first one. If the others have ended that, it throws RunIsOver, and they wait for it in theirs.
void agree_on_run(std::int64_t number) {
  while (is_elastic()) {
    const at::Tensor mine = at::full({1}, number, at::kLong);
    const at::Tensor numbers = allgather(mine, default_runtime().next_name("elastic_run", kWorld));
    if (number < numbers.max().item<std::int64_t>()) throw RunIsOver();
    if (numbers.min().item<std::int64_t>() == number) return;
  }
}

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
  static std::atomic<std::int64_t> runs = 0;
  const auto synchronise = [&state, number = runs++] {
    agree_on_run(number);
    Generations::of_process().begin();
    state.sync();
    note_training_state();
  };
  const auto begin_again = [&state, in_vain = FailuresInVain()](const std::optional<Error>& failure) mutable {
    if (is_elastic()) begin_next_generation();
    if (failure) in_vain.note(*failure, state.commits(), is_elastic() ? changes_of_workers() : 0);
    if (!is_elastic()) begin_same_job(failure);
  };
  try {
    loop(state, function, {synchronise, begin_again});
  } catch (const RunIsOver&) {}
}

}  // namespace rueda::elastic
