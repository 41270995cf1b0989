// SPDX-License-Identifier: Apache-2.0
// A ShardedOptimizer in elastic jobs whose workers are threads: workers are lost in each part of a step, and
// others join. The parameters are those of a training without losses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/elastic/loop.h"
#include "rueda/torch/elastic/state.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/sharding/sharded_optimizer.h"
#include "tests/support/training/regression.h"
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
thread_local std::function<void()> Watched::before_step;
template <>
inline constexpr bool is_elementwise<Watched> = true;

namespace elastic {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 14, kRows = 12, kHidden = 2000;

// How a worker is lost, in the step number `step`, or as soon as it comes to that moment later.
enum class Moment { backward, step, before_commit, after_commit, any };
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

// Purpose: one worker's training. Used by its thread.
class Learner {
 public:
  Learner(Worker worker, const Story& story)
      : alone_(memory_components(network_, 0, 1, {})),
        model_(static_cast<int>(worker) + 1, at::kDouble, kHidden),
        optimizer_(model_.tensors(), torch::optim::AdamWOptions(0.003).weight_decay(0.1),
                   DistributedOptions{.part_copies = story.copies}, alone_) {
    for (const auto& [name, tensor] : model_.named)
      module_->register_parameter(std::string(name).replace(name.find('.'), 1, "_"), tensor);
    state_ = std::make_unique<State>(std::vector<std::pair<std::string, Kept>>{
        {"model", module_}, {"optimizer", optimizer_}, {"steps", steps_}});
  }

  void backward(Rank rank, Rank ranks) {
    optimizer_.zero_grad();
    const std::int64_t first = kRows * rank / ranks, last = kRows * (rank + 1) / ranks;
    model_.loss(make_batch(kRows * steps_ + first, last - first)).backward();
  }

  State& state() { return *state_; }
  auto& optimizer() { return optimizer_; }
  std::int64_t& steps() { return steps_; }
  at::Tensor parameters() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& each : model_.tensors()) all.push_back(each.detach().flatten());
    return at::cat(all);
  }

 private:
  MemoryNetwork network_{1};
  Runtime alone_;  // a new worker makes its optimizer without the others
  Regression model_;
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>();
  ShardedOptimizer<Watched> optimizer_;
  std::int64_t steps_ = 0;
  std::unique_ptr<State> state_;
};

// The parameters after all steps without a loss.
const at::Tensor& undisturbed() {
  static const at::Tensor parameters = [] {
    const Story story{.workers = 1, .losses = {}};
    Learner learner(0, story);
    MemoryNetwork network(1);
    Runtime runtime(memory_components(network, 0, 1, {}));
    learner.state().sync(runtime);
    for (; learner.steps() < kSteps; learner.state().commit()) {
      learner.backward(0, 1);
      learner.optimizer().step();
      ++learner.steps();
    }
    return learner.parameters();
  }();
  return parameters;
}

// Purpose: a job of threads, to the end of its last worker.
class Job {
 public:
  explicit Job(Story story)
      : story_(std::move(story)),
        world_(story_.workers, story_.workers),
        together_(std::ranges::count_if(story_.losses, [&](const Loss& each) {
          return each.step == story_.losses[0].step && each.moment == Moment::step;
        })) {}

  void run() {
    for (Worker worker = 0; worker < story_.workers; ++worker) start(worker);
    std::unique_lock lock(mutex_);
    while (!threads_.empty()) {
      ASSERT_TRUE(
          changed_.wait_for(lock, std::chrono::seconds(100), [&] { return !ended_.empty() || formed_; }));
      for (const Worker worker : std::exchange(ended_, {})) {
        threads_.at(worker).join();
        threads_.erase(worker);
      }
      formed_ = false;
      if (!story_.replaced) continue;
      for (const Worker worker : world_.take_wanted()) start(worker);
    }
  }
  // What workers have that came to the end, and the errors of others.
  const std::vector<at::Tensor>& results() const { return results_; }
  const std::vector<std::string>& errors() const { return errors_; }
  int light() const { return light_; }    // commits
  int joined() const { return joined_; }  // workers that have trained after the beginning

 private:
  void start(Worker worker) {
    threads_[worker] = std::thread([this, worker] {
      live(worker);
      const std::lock_guard lock(mutex_);
      ended_.push_back(worker);
      changed_.notify_all();
    });
  }

  void live(Worker worker);
  std::unique_ptr<Runtime> next_generation(Worker worker, std::optional<std::uint64_t>& tried);
  void train(Worker worker, Learner& learner, Runtime& runtime);
  const Loss* loss_of(Worker worker, std::int64_t step) const;
  void die(Worker worker) {
    if (world_.die(worker, worker % 2 == 0)) throw Died();
  }

  const Story story_;
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

const Loss* Job::loss_of(Worker worker, std::int64_t step) const {
  for (const Loss& each : story_.losses) {
    if (each.worker == worker && each.step <= step) return &each;
  }
  return nullptr;
}

// Throws Died where there is none for this worker.
std::unique_ptr<Runtime> Job::next_generation(Worker worker, std::optional<std::uint64_t>& tried) {
  while (true) {
    if (world_.is_dead(worker)) throw Died();
    const std::optional<Generation> generation = world_.next_generation(worker, tried);
    if (!generation) throw Died();
    tried = generation->number;
    try {
      const std::string& host = story_.hosts[static_cast<std::size_t>(worker) % story_.hosts.size()];
      auto runtime = std::make_unique<Runtime>(world_.components(worker, *generation, host));
      world_.tell_formed(worker, generation->number);
      const std::lock_guard lock(mutex_);
      formed_ = true;
      changed_.notify_all();
      return runtime;
    } catch (const Error&) {  // a newer one is there
    }
  }
}

void Job::train(Worker worker, Learner& learner, Runtime& runtime) {
  const Topology& topology = runtime.topology();
  while (learner.steps() < kSteps) {
    const Loss* const loss = loss_of(worker, learner.steps());
    const auto is = [&](Moment moment) { return loss != nullptr && loss->moment == moment; };
    std::jthread death;
    if (is(Moment::any)) {
      death = std::jthread([this, worker] {
        std::this_thread::sleep_for(std::chrono::microseconds(std::random_device()() % 4000));
        world_.die(worker, worker % 2 == 0);
      });
    }
    if (is(Moment::backward)) die(worker);
    learner.backward(topology.rank, topology.size);
    {
      const auto tear_and_die = [&] {  // in the midst of a step
        for (const auto& group : learner.optimizer().param_groups()) {
          for (at::Tensor leaf : group.params()) leaf.fill_(NAN);
        }
        if (loss->step == story_.losses[0].step) together_.arrive_and_wait();
        die(worker);
      };
      const Watched::Watch watch(is(Moment::step) ? tear_and_die : std::function<void()>());
      learner.optimizer().step();
    }
    if (is(Moment::before_commit)) die(worker);
    ++learner.steps();
    if (learner.steps() % story_.commit_interval == 0) {
      learner.state().commit();
      light_ += learner.state().is_light() ? 1 : 0;
    }
    if (is(Moment::after_commit)) die(worker);
  }
}

void Job::live(Worker worker) {
  std::optional<std::uint64_t> tried;
  std::unique_ptr<Runtime> runtime;
  try {
    Learner learner(worker, story_);
    runtime = next_generation(worker, tried);
    learner.state().hear_by([&]() -> std::optional<MembershipChange> {
      if (!world_.joiners_wait()) return std::nullopt;
      return MembershipChange{.added = true, .since = static_cast<double>(*tried) + 1};
    });
    const auto begin_again = [&](const std::optional<Error>& failure) {
      if (world_.is_dead(worker)) throw Died();
      if (!failure) world_.leave(*tried);
      try {
        runtime->shutdown();
      } catch (const Error&) {}
      runtime = next_generation(worker, tried);
    };
    joined_ += worker >= story_.workers ? 1 : 0;
    loop(learner.state(), [&] { train(worker, learner, *runtime); },
         {[&] { learner.state().sync(*runtime); }, begin_again});
    runtime->shutdown();
    const std::lock_guard lock(mutex_);
    results_.push_back(learner.parameters().clone());
  } catch (const Died&) {
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    errors_.emplace_back(error.what());
  }
  runtime.reset();
  if (world_.is_dead(worker))
    world_.tell_lost(worker);
  else
    world_.tell_finished(worker);
}

// Runs it, and compares what all that are left have in the end. Returns how many have joined.
int expect_no_trace(const Story& story) {
  Job job(story);
  job.run();
  EXPECT_THAT(job.errors(), testing::IsEmpty());
  EXPECT_GE(std::ssize(job.results()), story.workers - std::ssize(story.losses));
  for (const at::Tensor& result : job.results()) EXPECT_LT(difference(result, undisturbed()), 1e-9);
  if (story.commit_interval == 1) {
    EXPECT_GT(job.light(), 2 * std::ssize(job.results()));
  }
  return job.joined();
}

class ShardedLosses : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  void SetUp() override { configure_log(LogLevel::fatal, false, 0); }
  void TearDown() override { configure_log(LogLevel::warning, false, 0); }
  Story story(Rank workers, std::vector<Loss> losses) const {
    return {.workers = workers, .losses = std::move(losses), .hosts = GetParam()};
  }
};

constexpr Moment kMoments[] = {Moment::backward, Moment::step, Moment::before_commit, Moment::after_commit};

TEST_P(ShardedLosses, OfAnyRankAtAnyMomentLeaveNoTrace) {
  int joined = 0;
  for (const Moment moment : kMoments) {
    for (Worker victim = 0; victim < 3; ++victim) {
      for (const bool replaced : {false, true}) {
        SCOPED_TRACE(
            fmt::format("worker {}, moment {}, replaced {}", victim, static_cast<int>(moment), replaced));
        Story lost = story(3, {{victim, 5, moment}});
        lost.replaced = replaced;
        joined += expect_no_trace(lost);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(joined, 3);
}

TEST_P(ShardedLosses, OfTwoThatAreNoNeighboursLeaveNoTrace) {
  for (const Moment moment : kMoments) {
    Story lost = story(4, {{0, 5, moment}, {2, 5, moment}});
    lost.replaced = false;
    expect_no_trace(lost);
  }
}

TEST_P(ShardedLosses, OfNeighboursLeaveNoTraceIfThereAreTwoCopies) {
  Story lost = story(4, {{1, 5, Moment::step}, {2, 5, Moment::step}, {0, 9, Moment::backward}});
  lost.replaced = false;
  lost.copies = 2;
  expect_no_trace(lost);
}

TEST_P(ShardedLosses, OneAfterAnotherLeaveNoTrace) {
  expect_no_trace(story(3, {{1, 3, Moment::step}, {0, 6, Moment::before_commit}, {3, 9, Moment::backward}}));
}

TEST_P(ShardedLosses, BetweenFullCommitsLeaveNoTrace) {
  for (const Moment moment : kMoments) {
    for (const std::int64_t step : {1, 5, 6}) {  // 5: the next commit follows this step
      Story lost = story(3, {{1, step, moment}});
      lost.commit_interval = 3;
      expect_no_trace(lost);
    }
  }
}

TEST_P(ShardedLosses, AtRandomLeaveNoTrace) {
  for (int round = 0; round < 25; ++round) {
    const auto victim = static_cast<Worker>(round % 3);
    Story lost = story(3, {{victim, 4 + round % 5, Moment::any}});
    lost.commit_interval = round % 4 == 3 ? 2 : 1;
    expect_no_trace(lost);
    if (HasFailure()) return;
  }
}

TEST_P(ShardedLosses, OfAllThatHaveAPartAreNamed) {
  for (const int copies : {0, 1}) {
    Story lost = story(4, {{1, 5, Moment::step}});
    if (copies == 1) lost.losses.push_back({2, 5, Moment::step});
    lost.replaced = false;
    lost.copies = copies;
    Job job(lost);
    job.run();
    EXPECT_EQ(std::ssize(job.errors()), 3 - copies);
    for (const std::string& error : job.errors()) {
      EXPECT_THAT(error, AllOf(HasSubstr("part 1 of the 4 parts"), HasSubstr("after step "),
                               HasSubstr("from a checkpoint"), HasSubstr("part_copies")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, ShardedLosses,
                         testing::Values(std::vector<std::string>{"one"},
                                         std::vector<std::string>{"even", "odd"}));

}  // namespace
}  // namespace elastic
}  // namespace rueda
