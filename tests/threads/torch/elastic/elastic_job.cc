// SPDX-License-Identifier: Apache-2.0
#include "tests/threads/torch/elastic/elastic_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "frameworks/torch/elastic/loop.h"
#include "tests/support/training/regression.h"

namespace rueda {

thread_local std::function<void()> Watched::before_step;

namespace elastic {

at::Tensor train_undisturbed(const MakeLearner& make) {
  const std::unique_ptr<Learner> learner = make(0);
  MemoryNetwork network(1);
  Runtime runtime(memory_components(network, 0, 1, {}));
  learner->state().sync(runtime);
  for (; learner->steps() < kSteps; learner->state().commit()) {
    learner->backward(0, 1, [](Moment) {});
    learner->step();
    ++learner->steps();
  }
  return learner->parameters();
}

Job::Job(Story story, MakeLearner make)
    : story_(std::move(story)),
      make_(std::move(make)),
      world_(story_.workers, story_.workers),
      together_(std::ranges::count_if(story_.losses, [&](const Loss& each) {
        return each.step == story_.losses[0].step && each.moment == Moment::step;
      })) {}

void Job::run() {
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

void Job::start(Worker worker) {
  threads_[worker] = std::thread([this, worker] {
    live(worker);
    const std::lock_guard lock(mutex_);
    ended_.push_back(worker);
    changed_.notify_all();
  });
}

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

at::Tensor Job::train(Worker worker, Learner& learner, Runtime& runtime) {
  while (learner.steps() < kSteps) train_step(worker, learner, runtime, loss_of(worker, learner.steps()));
  return learner.parameters();
}

void Job::train_step(Worker worker, Learner& learner, Runtime& runtime, const Loss* loss) {
  const Topology& topology = runtime.topology();
  const auto is = [&](Moment moment) { return loss != nullptr && loss->moment == moment; };
  std::jthread death;
  if (is(Moment::any)) {
    death = std::jthread([this, worker] {
      std::this_thread::sleep_for(std::chrono::microseconds(std::random_device()() % 4000));
      world_.die(worker, worker % 2 == 0);
    });
  }
  if (is(Moment::backward)) die(worker);
  learner.backward(topology.rank, topology.size, [&](Moment moment) {
    if (!is(moment)) return;
    if (moment == Moment::in_hook)
      world_.die(worker, worker % 2 == 0);
    else
      die(worker);
  });
  {
    const auto tear_and_die = [&] {  // in the midst of a step
      for (const auto& group : learner.optimizer().param_groups()) {
        for (at::Tensor leaf : group.params()) leaf.fill_(NAN);
      }
      if (loss->step == story_.losses[0].step) together_.arrive_and_wait();
      die(worker);
    };
    const Watched::Watch watch(is(Moment::step) ? tear_and_die : std::function<void()>());
    learner.step();
  }
  if (is(Moment::before_commit)) die(worker);
  ++learner.steps();
  if (learner.steps() % story_.commit_interval == 0) {
    learner.state().commit();
    light_ += learner.state().is_light() ? 1 : 0;
  }
  if (is(Moment::after_commit)) die(worker);
}

void Job::live(Worker worker) {
  std::optional<std::uint64_t> tried;
  std::unique_ptr<Runtime> runtime;
  try {
    const std::unique_ptr<Learner> made = make_(worker);
    Learner& learner = *made;
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
    at::Tensor result;
    loop(learner.state(), [&] { result = train(worker, learner, *runtime); },
         {[&] { learner.state().sync(*runtime); }, begin_again});
    runtime->shutdown();
    const std::lock_guard lock(mutex_);
    results_.push_back(result.clone());
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

int expect_no_trace(const Story& story, const MakeLearner& make, const at::Tensor& undisturbed) {
  Job job(story, make);
  job.run();
  EXPECT_THAT(job.errors(), testing::IsEmpty());
  EXPECT_GE(std::ssize(job.results()), story.workers - std::ssize(story.losses));
  for (const at::Tensor& result : job.results()) EXPECT_LT(difference(result, undisturbed), 1e-9);
  if (story.commit_interval == 1) {
    EXPECT_GT(job.light(), 2 * std::ssize(job.results()));
  }
  return job.joined();
}

}  // namespace elastic
}  // namespace rueda
