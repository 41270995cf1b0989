// SPDX-License-Identifier: Apache-2.0
// One rank of a job that trains with a ShardedOptimizer; tests/python/test_sharded.py starts it:
// sharded_rank trains | killed FOLDER | resumes FOLDER | lacks_memory
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <c10/core/GradMode.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <rueda/torch.h>
#include "tests/support/process_watchdog.h"
#include "tests/support/training/regression.h"

namespace {

constexpr int kSteps = 20;
constexpr int kCommitEvery = 2;
constexpr int kKilledIn = 4;  // whose end would be a commit
constexpr float kTorn = 1e30F;

using Model = std::vector<at::Tensor>;
using Adam = rueda::ShardedOptimizer<rueda::FusedAdamW>;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Ends rank 1's process in the middle of a step.
class Killer : public rueda::FusedAdamW {
 public:
  using FusedAdamW::FusedAdamW;
  at::Tensor step(LossClosure closure = nullptr) override {
    if (++steps_ == kKilledIn && rueda::rank() == 1) {
      const at::NoGradGuard no_grad;
      param_groups()[0].params()[0].narrow(0, 0, 10).fill_(kTorn);
      std::printf("rank 1 dies at %.3f\n", now());
      std::fflush(stdout);
      kill(getpid(), SIGKILL);
    }
    return FusedAdamW::step(std::move(closure));
  }

 private:
  int steps_ = 0;
};

}  // namespace

template <>
inline constexpr bool rueda::is_elementwise<Killer> = true;

namespace {

Model make_model(int seed = 1) {
  return {rueda::make_parameter({300, 200}, seed, at::kFloat),
          rueda::make_parameter({200}, seed + 1, at::kFloat)};
}

// Steps from `first` to kSteps; `stepped` is told of each that has returned.
void train(
    auto& optimizer, const Model& model, int first = 0,
    const std::function<void(int)>& stepped = [](int) {}) {
  for (int step = first; step < kSteps; ++step) {
    optimizer.zero_grad();
    const int row = step * rueda::size() + rueda::rank();
    for (const at::Tensor& parameter : model)
      (parameter * rueda::make_parameter(parameter.sizes(), row, at::kFloat).detach()).sum().backward();
    optimizer.step();
    stepped(step + 1);
  }
}

void expect_equal(const Model& a, const Model& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) throw std::runtime_error("bits differ in parameter " + std::to_string(i));
  }
}

rueda::NamedStates named(Model& model) { return {{"weight", model[0]}, {"bias", model[1]}}; }

std::string part_file(const std::string& folder, int step) {
  return folder + "/part." + std::to_string(step) + "." + std::to_string(rueda::rank());
}

// The model's file is written when all parts are there: with it the commit is whole.
void commit(const std::string& folder, int step, Model& model, const torch::optim::Optimizer& optimizer) {
  rueda::save_part(part_file(folder, step), optimizer);
  rueda::save(folder + "/model." + std::to_string(step), named(model));
}

// That `action`, which needs the rank that is lost, says so instead of doing it.
void expect_lost(const char* what, const std::function<void()>& action) {
  try {
    action();
  } catch (const rueda::PeerLost& error) {
    std::printf("rank %d, %s at %.3f: %s\n", rueda::rank(), what, now(), error.what());
    std::fflush(stdout);
    return;
  }
  throw std::runtime_error(std::string(what) + " went well without rank 1");
}

// Whoever lives tries all that could make a checkpoint, or another step, of what is left.
void be_killed(const std::string& folder) {
  Model model = make_model();
  rueda::ShardedOptimizer<Killer> optimizer(model, torch::optim::AdamWOptions(0.01));
  int returned = 0;
  expect_lost("step", [&] {
    train(optimizer, model, 0, [&](int step) {
      returned = step;
      if (step % kCommitEvery == 0) commit(folder, step, model, optimizer);
    });
  });
  const bool torn = (model[0] == kTorn).any().item<bool>();
  std::printf("rank %d finds it %s, after %d steps, %s\n", rueda::rank(), torn ? "torn" : "without the mark",
              returned, optimizer.shares_parameters() ? "shared" : "apart");
  const double begin = now();
  expect_lost("next step", [&] { train(optimizer, model, returned); });
  expect_lost("state_dict", [&] { static_cast<void>(optimizer.state_dict()); });
  expect_lost("save", [&] { rueda::save(folder + "/model.torn", named(model)); });
  expect_lost("new optimizer", [&] { Adam(model, torch::optim::AdamWOptions(0.01)); });
  expect_lost("broadcast", [&] { rueda::broadcast_(model[0].detach(), 0, "again"); });
  if (now() - begin > 2) throw std::runtime_error("the loss is known, and they took long to say so");
}

void resume(const std::string& folder) {
  const Model straight = make_model();
  Model model = make_model(7), loaded = make_model(9);
  Adam reference(straight, torch::optim::AdamWOptions(0.01));
  train(reference, straight);
  rueda::load(folder + "/model." + std::to_string(kCommitEvery), named(loaded));
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < model.size(); ++i) model[i].copy_(loaded[i]);
  }
  Adam optimizer(model, torch::optim::AdamWOptions(7.0));
  rueda::load_part(part_file(folder, kCommitEvery), optimizer);
  train(optimizer, model, kCommitEvery);
  expect_equal(straight, model);
}

// Rank 1 has no memory for a second copy of a large model. All hear of it, and go on with a small one.
void lack_memory() {
  const Model large{at::empty({50'000'000}).requires_grad_(true)};
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit few{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{50} << 20), before.rlim_max};
  if (rueda::rank() == 1) setrlimit(RLIMIT_AS, &few);
  try {
    const Adam optimizer(large, torch::optim::AdamWOptions(0.01));
    throw std::runtime_error("there was memory");
  } catch (const rueda::InvalidArgument& error) {
    std::printf("rank %d: %s\n", rueda::rank(), error.what());
  }
  setrlimit(RLIMIT_AS, &before);
  const Model small = make_model();
  Adam optimizer(small, torch::optim::AdamWOptions(0.01));
  train(optimizer, small);
}

void compare_with_whole() {
  const Model whole = make_model(), parts = make_model();
  rueda::DistributedOptimizer<rueda::FusedAdamW> reference(whole, torch::optim::AdamWOptions(0.01));
  train(reference, whole);
  Adam optimizer(parts, torch::optim::AdamWOptions(0.01));
  train(optimizer, parts);
  expect_equal(whole, parts);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "", folder = argc > 2 ? argv[2] : "";
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(60));
  try {
    rueda::init();
    std::printf("rank %d is process %d\n", rueda::rank(), getpid());
    std::fflush(stdout);
    if (mode == "killed") {
      be_killed(folder);
      return 3;
    }
    if (mode == "lacks_memory") {
      lack_memory();
      return 0;
    }
    mode == "resumes" ? resume(folder) : compare_with_whole();
    std::printf("rank %d has the same bits\n", rueda::rank());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
