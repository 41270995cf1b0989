// SPDX-License-Identifier: Apache-2.0
// An elastic job whose workers are threads, which are lost in each part of a step, for tests of divided
// state.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/elastic/state.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/worlds/elastic_world.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {

// Purpose: an optimizer that calls a function before it steps.
class Watched : public FusedAdamW {
 public:
  using FusedAdamW::FusedAdamW;
  static thread_local std::function<void()> before_step;  // of this thread
  // Purpose: the function is called while it lives.
  struct Watch {
    explicit Watch(std::function<void()> function) { before_step = std::move(function); }
    ~Watch() { before_step = nullptr; }
  };
  at::Tensor step(LossClosure closure = nullptr) override {
    if (before_step) before_step();
    return FusedAdamW::step(std::move(closure));
  }
};
template <>
inline constexpr bool is_elementwise<Watched> = true;

namespace elastic {

constexpr std::int64_t kSteps = 14, kRows = 12;

// How a worker is lost, in the step number `step`, or as soon as it comes to that moment later. In the
// hook of a backward pass it stays until its next operation fails.
enum class Moment {
  backward,
  in_forward,
  in_hook,
  between_passes,
  clipped,
  step,
  before_commit,
  after_commit,
  any
};
struct Loss {
  Worker worker;
  std::int64_t step;
  Moment moment;
};

// Purpose: what happens in a job. All that are lost in the midst of the first such step are lost together. A
// plain value.
struct Story {
  Rank workers;
  std::vector<Loss> losses;
  bool replaced = true;                   // others take the places of lost workers
  int copies = 1;                         // of each part
  int commit_interval = 1;                // steps
  std::vector<std::string> hosts{"one"};  // of the workers, in turn
};

// A thread throws it in place of the end of its process.
struct Died {};

// Purpose: one worker's training. Used by its thread. A new worker makes it without the others.
class Learner {
 public:
  virtual ~Learner() = default;
  // All that comes before the optimizer's step. It calls `comes_to` at the moments that it has.
  virtual void backward(Rank rank, Rank ranks, const std::function<void(Moment)>& comes_to) = 0;
  // The step, and all that follows from it.
  virtual void step() = 0;
  virtual torch::optim::Optimizer& optimizer() = 0;
  // All values that training changes. Collective.
  virtual at::Tensor parameters() = 0;

  State& state() { return *state_; }
  std::int64_t& steps() { return steps_; }

 protected:
  Learner() : alone_(memory_components(network_, 0, 1, {})) {}
  Runtime& alone() { return alone_; }
  void keep(std::vector<std::pair<std::string, Kept>> objects) {
    objects.emplace_back("steps", steps_);
    state_ = std::make_unique<State>(std::move(objects));
  }

 private:
  MemoryNetwork network_{1};
  Runtime alone_;
  std::int64_t steps_ = 0;
  std::unique_ptr<State> state_;
};

using MakeLearner = std::function<std::unique_ptr<Learner>(Worker)>;

// The parameters after all steps without a loss.
at::Tensor train_undisturbed(const MakeLearner& make);

// Purpose: a job of threads, to the end of its last worker.
class Job {
 public:
  Job(Story story, MakeLearner make);

  void run();
  // What workers have that came to the end, and the errors of others.
  const std::vector<at::Tensor>& results() const { return results_; }
  const std::vector<std::string>& errors() const { return errors_; }
  int light() const { return light_; }    // commits
  int joined() const { return joined_; }  // workers that have trained after the beginning

 private:
  void start(Worker worker);
  void live(Worker worker);
  std::unique_ptr<Runtime> next_generation(Worker worker, std::optional<std::uint64_t>& tried);
  at::Tensor train(Worker worker, Learner& learner, Runtime& runtime);
  void train_step(Worker worker, Learner& learner, Runtime& runtime, const Loss* loss);
  const Loss* loss_of(Worker worker, std::int64_t step) const;
  void die(Worker worker) {
    if (world_.die(worker, worker % 2 == 0)) throw Died();
  }

  const Story story_;
  const MakeLearner make_;
  ElasticWorld world_;
  std::latch together_;  // workers that are lost in the first such step
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Worker, std::thread> threads_;
  std::vector<Worker> ended_;        // guarded by the mutex
  bool formed_ = false;              // a generation; guarded by the mutex
  std::vector<at::Tensor> results_;  // guarded by the mutex
  std::vector<std::string> errors_;  // guarded by the mutex
  std::atomic<int> light_ = 0;
  std::atomic<int> joined_ = 0;
};

// Runs it, and compares what all that are left have in the end with `undisturbed`. Returns how many have
// joined.
int expect_no_trace(const Story& story, const MakeLearner& make, const at::Tensor& undisturbed);

}  // namespace elastic
}  // namespace rueda
