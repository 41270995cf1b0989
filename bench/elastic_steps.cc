// SPDX-License-Identifier: Apache-2.0
// elastic_steps PARAMETERS STOP: the twin of elastic_steps.py in C++, for fault_campaign.py --program c++.
//
// It prints the same events. SHARDED: each rank has a part of the optimizer.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <rueda/torch.h>
#include <torch/torch.h>

namespace {

constexpr std::int64_t kSamples = 480;  // of an epoch; any number of ranks up to 6 divides them
constexpr double kPull = 0.01;

void tell(std::string_view event, const std::string& more) {
  const char* const worker = std::getenv("RUEDA_WORKER");
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string line =
      fmt::format("event {} {} {:.6f} {}\n", event, worker == nullptr ? "0" : worker, now, more);
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::exit(1);  // at once: it may be killed
}

// A step takes 1 from the count of each sample that it has seen. It pulls `exact` to `targets`, by n times as
// much on n ranks. All elements of `others` have the same gradient, so they stay equal.
struct Model : torch::nn::Module {
  explicit Model(std::int64_t parameters)
      : counts(register_parameter("counts", torch::zeros({kSamples}, torch::kFloat64))),
        exact(register_parameter("exact", torch::zeros({4}, torch::kFloat64))),
        others(register_parameter("others", torch::zeros({parameters}))),
        coefficients(torch::ones({parameters})) {}

  torch::Tensor loss(const torch::Tensor& samples) const {
    return counts.index_select(0, samples).sum() + 0.5 * kPull * (exact - targets).square().sum() +
           (others * coefficients).sum();
  }

  const torch::Tensor targets = torch::arange(1, 5, torch::kFloat64);
  torch::Tensor counts, exact, others, coefficients;
};

std::vector<torch::optim::OptimizerParamGroup> groups(const Model& model) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{model.counts}, std::make_unique<torch::optim::SGDOptions>(1.0));
  groups.emplace_back(std::vector{model.exact, model.others});
  return groups;
}

// Rows of a number of ranks, and of the steps that so many have made.
void count_step(torch::Tensor& history) {
  const std::int64_t rows = history.size(0);
  if (rows == 0 || history[rows - 1][0].item<std::int64_t>() != rueda::size())
    history = torch::cat({history, torch::tensor({{std::int64_t{rueda::size()}, std::int64_t{0}}})});
  history[-1][1] += 1;
}

std::string words_of(const torch::Tensor& history) {
  std::string words;
  for (std::int64_t row = 0; row < history.size(0); ++row)
    words += fmt::format("{}{}:{}", row == 0 ? "" : ",", history[row][0].item<std::int64_t>(),
                         history[row][1].item<std::int64_t>());
  return words;
}

bool all_ranks_see(const std::filesystem::path& stop) {
  const torch::Tensor seen = torch::tensor({rueda::rank() == 0 && std::filesystem::exists(stop)});
  return rueda::broadcast(seen, 0, "stop")[0].item<bool>();
}

void end(const Model& model, std::int64_t epochs, const torch::Tensor& history) {
  const torch::Tensor times = (-model.counts.detach() - epochs).round().to(torch::kLong);
  const bool uniform = (model.others == model.others[0]).all().item<bool>();
  std::string exact;
  for (std::int64_t i = 0; i < 4; ++i)
    exact += fmt::format("{}{:.17g}", i == 0 ? "" : ",", model.exact[i].item<double>());
  tell("end", fmt::format("{} {} {} {} {} {}", epochs, -times.clamp_max(0).sum().item<std::int64_t>(),
                          times.clamp_min(0).sum().item<std::int64_t>(), uniform ? "uniform" : "torn", exact,
                          words_of(history)));
}

template <class Optimizer>
void run(std::int64_t parameters, const std::filesystem::path& stop) {
  const char* const host = std::getenv("HOROVOD_HOSTNAME");
  tell("process", fmt::format("{} {}", ::getpid(), host == nullptr ? "" : host));
  Model model(parameters);  // before init(), in which a spare waits
  tell("waits", "");
  rueda::init();
  Optimizer optimizer(groups(model), torch::optim::SGDOptions(1.0).momentum(0.9),
                      rueda::DistributedOptions{.op = rueda::ReduceOp::sum});
  rueda::elastic::Sampler sampler(kSamples);
  torch::Tensor history = torch::zeros({0, 2}, torch::kLong);
  rueda::elastic::State state(
      {{"model", model}, {"optimizer", optimizer}, {"sampler", sampler}, {"history", history}});
  state.on_reset([] { tell("generation", std::to_string(rueda::size())); });
  const auto train = [&] {
    tell("begins", std::to_string(rueda::size()));
    for (bool over = false; !over;) {
      while (const auto batch = sampler.next(1)) {
        const auto samples = torch::tensor(std::vector<std::int64_t>(batch->begin(), batch->end()));
        optimizer.zero_grad();
        model.loss(samples).backward();
        optimizer.step();
        sampler.record_batch(batch->size());
        count_step(history);
        tell("step", std::to_string(rueda::size()));
        state.commit();
      }
      over = all_ranks_see(stop);
      if (over) tell("over", "");
      sampler.set_epoch(sampler.epoch() + 1);
      state.commit();
    }
  };
  rueda::elastic::run(state, [&] {
    try {
      train();
    } catch (const rueda::Error&) {
      tell("fails", "");
      throw;
    }
  });
  if (rueda::rank() == 0) end(model, static_cast<std::int64_t>(sampler.epoch()), history);
  rueda::shutdown();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: elastic_steps PARAMETERS STOP\n");
    return 2;
  }
  try {
    const auto train = std::getenv("SHARDED") == nullptr ? run<rueda::DistributedOptimizer<torch::optim::SGD>>
                                                         : run<rueda::ShardedOptimizer<torch::optim::SGD>>;
    train(std::atoll(arguments[1]), arguments[2]);
  } catch (const rueda::LeftJob&) {
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
