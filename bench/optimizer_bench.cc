// SPDX-License-Identifier: Apache-2.0
// What a step of a sharded optimizer costs, against the same ranks each stepping all of it with the same
// kernel: ruedarun --no-prefix -np 2 build/bin/optimizer_bench [STEPS]
//
// Both sides step the parameters of a BERT of 6 layers (bench/rueda_bench/workload/workload.h), gradients
// already reduced, and end with a barrier. The owner writes the gradients anew before each step. Sides
// alternate step by step.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <rueda/torch.h>
#include "bench/rueda_bench/percentile.h"
#include "bench/rueda_bench/pinning.h"
#include "bench/rueda_bench/workload/workload.h"

namespace rueda::bench {
namespace {

using Adam = FusedAdamW;
using Options = torch::optim::AdamWOptions;

std::vector<at::Tensor> make_model() {
  std::vector<at::Tensor> model;
  for (const NamedTensor& tensor : gradients_of("bert6").tensors)
    model.push_back(at::full({tensor.elements}, 0.02, at::kFloat).requires_grad_(true));
  return model;
}

void write_gradients(const std::vector<at::Tensor>& model, float value) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : model) {
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros(parameter.sizes(), at::kFloat);
    parameter.mutable_grad().fill_(value);
  }
}

// Microseconds of the slowest rank.
double slowest(double microseconds) {
  std::vector<double> times{microseconds};
  allreduce_async("time", view(times), view(times), {ReduceOp::max}).wait();
  return times.front();
}

template <class Step>
double timed(Step step) {
  barrier();
  const auto begin = std::chrono::steady_clock::now();
  step();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  return slowest(time.count());
}

std::int64_t state_bytes(Adam& optimizer) {
  std::int64_t bytes = 0;
  for (const auto& [parameter, state] : optimizer.state()) {
    const auto& moments = static_cast<const torch::optim::AdamWParamState&>(*state);
    bytes += static_cast<std::int64_t>(moments.exp_avg().nbytes() + moments.exp_avg_sq().nbytes());
  }
  return bytes;
}

void run(int steps) {
  at::set_num_threads(1);
  const std::vector<at::Tensor> whole_model = make_model(), sharded_model = make_model();
  Adam whole(whole_model, Options(1e-4));
  ShardedOptimizer<Adam> sharded(sharded_model, Options(1e-4));
  const auto no_reduction = sharded.skip_synchronize();
  std::vector<double> whole_times, sharded_times;
  for (int step = -3; step < steps; ++step) {
    write_gradients(whole_model, 1e-3F * static_cast<float>(step % 7));
    const double one = timed([&] {
      whole.step();
      barrier();
    });
    write_gradients(sharded_model, 1e-3F * static_cast<float>(step % 7));
    const double other = timed([&] { sharded.step(); });
    if (step < 0) continue;
    whole_times.push_back(one);
    sharded_times.push_back(other);
  }
  bool same = true;
  for (std::size_t i = 0; i < whole_model.size(); ++i) same &= whole_model[i].equal(sharded_model[i]);
  const std::int64_t whole_state = state_bytes(whole), sharded_state = state_bytes(sharded);
  barrier();
  if (rank() != 0) return;
  double load = 0;
  getloadavg(&load, 1);
  const double ratio = median(whole_times) / median(sharded_times);
  fmt::print("AdamW, {} ranks, {:.1f} million parameters, {} steps in alternation, load {:.1f}\n", size(),
             static_cast<double>(gradients_of("bert6").bytes()) / 4e6, steps, load);
  fmt::print("whole    {:8.2f} ms (least {:.2f})  state of rank 0 {:6.1f} MB\n", median(whole_times) / 1e3,
             *std::ranges::min_element(whole_times) / 1e3, static_cast<double>(whole_state) / 1e6);
  fmt::print(
      "sharded  {:8.2f} ms (least {:.2f})  state of rank 0 {:6.1f} MB  {:.2f} times as fast, bits {}\n",
      median(sharded_times) / 1e3, *std::ranges::min_element(sharded_times) / 1e3,
      static_cast<double>(sharded_state) / 1e6, ratio, same ? "the same" : "DIFFERENT");
}

}  // namespace
}  // namespace rueda::bench

int main(int argc, char** argv) {
  try {
    const std::string_view wanted = argc > 1 ? argv[1] : "30";
    int steps = 0;
    const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), steps);
    if (argc > 2 || error != std::errc() || end != wanted.data() + wanted.size() || steps < 1)
      throw std::runtime_error("ruedarun -np 2 optimizer_bench [STEPS]: a number of steps, 1 or more");
    rueda::bench::pin_to_core();
    rueda::init();
    if (rueda::size() < 2)
      throw std::runtime_error("one rank has nothing to share: ruedarun -np 2 optimizer_bench");
    rueda::bench::run(steps);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
