// SPDX-License-Identifier: Apache-2.0
// elastic_training SAMPLES EPOCHS SECONDS: training that counts, and that goes on when ranks are killed.
//
// A small network learns in float64. A further parameter counts: the gradient of a sample is 1 at its own
// index, and a step subtracts the sum over all ranks. In the end rank 0 prints how many samples were applied
// how often, the sum of the network's parameters with weights, and how many commits were light. SECONDS: of
// work in each step. UNTIL_WORKER: epochs go on until a worker of that number, or a higher one, takes part.
// STOP: until that file is there.
// MISMATCHES_AT: the step in which ranks reduce different shapes. FAILS_AT: the step in which the program
// throws an error of its own. DIES_EARLY: the number of a worker that is killed between init() and its
// optimizer. LATE_WORKER: of one that takes 30 ms longer for each step. REFUSING: of one that ends with
// status 3 at once. ENDS_EARLY: of one that ends well in step 7. SHARDED: each rank has a part of the
// optimizer, of a larger network; SHARDED=model: of the network, too, which GATHERED=1 gathers even on one
// host. PART_COPIES: the option of that name.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <concepts>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rueda/torch.h>
#include <torch/torch.h>

namespace {

constexpr std::size_t kBatch = 4;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::int64_t number_from(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoll(text);
}

bool is_named_by(const char* name, std::int64_t worker) {
  return std::getenv(name) != nullptr && number_from(name) == worker;
}

int part_copies() {
  return std::getenv("PART_COPIES") == nullptr ? 1 : static_cast<int>(number_from("PART_COPIES"));
}

bool is_sharded() { return std::getenv("SHARDED") != nullptr; }

// A network in float64, with values that are the same everywhere, and a parameter that counts.
torch::nn::Sequential make_network(std::int64_t samples) {
  const std::int64_t hidden = is_sharded() ? 2000 : 8;
  torch::nn::Sequential network(torch::nn::Linear(3, hidden), torch::nn::Tanh(),
                                torch::nn::BatchNorm1d(hidden), torch::nn::Linear(hidden, 1));
  network->to(torch::kFloat64);
  network->eval();  // statistics of a batch would differ by the number of ranks
  const torch::NoGradGuard no_grad;
  std::int64_t seed = 0;
  for (torch::Tensor& each : network->parameters())
    each.copy_((torch::arange(each.numel(), torch::kFloat64) + ++seed).cos().reshape(each.sizes()) *
               (hidden > 8 ? 0.02 : 0.3));
  network->register_parameter("counts", torch::zeros({samples}, torch::kFloat64));
  return network;
}

// Purpose: a network, its data and its optimizer.
template <class Optimizer>
class Training {
  static constexpr bool kIsModel = std::derived_from<Optimizer, rueda::ShardedModelPart>;

 public:
  explicit Training(std::int64_t samples)
      : inputs_((torch::arange(samples * 3, torch::kFloat64) * 1.7).sin().reshape({samples, 3})),
        targets_((torch::arange(samples, torch::kFloat64) * 2.3).sin().reshape({samples, 1})),
        network_(make_network(samples)),
        counts_(network_->named_parameters()["counts"]),
        optimizer_(make_optimizer()) {
    if constexpr (kIsModel) runner_ = optimizer_.runner();
  }

  torch::nn::Sequential& network() { return network_; }
  auto& optimizer() { return optimizer_; }

  void train(const std::vector<std::size_t>& batch, double seconds) {
    const torch::Tensor rows = torch::tensor(std::vector<std::int64_t>(batch.begin(), batch.end()));
    optimizer_.zero_grad();
    const torch::Tensor loss = in_pass([&] {
      const auto error = torch::mse_loss(forward(inputs_.index_select(0, rows)),
                                         targets_.index_select(0, rows), at::Reduction::Sum);
      return error + counts_.index_select(0, rows).sum();
    });
    loss.backward();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    optimizer_.step();
  }

  // Copies all parameters, as they are then. Collective.
  void note_values() {
    const torch::NoGradGuard no_grad;
    values_.clear();
    in_pass([&] {
      for (auto& layer : *network_) {
        runner_(*layer.ptr(), [&] {
          for (const torch::Tensor& each : layer.ptr()->parameters()) values_.push_back(each.clone());
          return torch::Tensor();
        });
      }
      values_.push_back(counts_.clone());
      return torch::Tensor();
    });
  }

  std::string applied() const {
    const torch::Tensor& counts = values_.back();
    std::map<std::int64_t, std::int64_t> times;
    for (std::int64_t i = 0; i < counts.numel(); ++i) ++times[std::lround(-counts[i].item<double>())];
    std::string words;
    for (const auto& [number, samples] : times)
      words += fmt::format("{}{}: {}", words.empty() ? "" : ", ", number, samples);
    return words;
  }

  double weighted_sum() const {
    double sum = 0, weight = 1;
    for (std::size_t i = 0; i + 1 < values_.size(); ++i) {
      const torch::Tensor& each = values_[i];
      const auto weights = torch::arange(1, each.numel() + 1, torch::kFloat64).sqrt() * ++weight;
      sum += (each.detach().flatten() * weights).sum().item<double>();
    }
    return sum;
  }

 private:
  Optimizer make_optimizer() {
    const auto options = torch::optim::SGDOptions(0.002).momentum(0.9);
    if constexpr (kIsModel) {
      const rueda::ShardedModelOptions sharded{.units = {"0", "2", "3"},
                                               .op = rueda::ReduceOp::sum,
                                               .share = std::getenv("GATHERED") == nullptr,
                                               .part_copies = part_copies()};
      return Optimizer(*network_, sharded, groups(), options);
    } else {
      return Optimizer(groups(), options,
                       rueda::DistributedOptions{.op = rueda::ReduceOp::sum, .part_copies = part_copies()});
    }
  }

  template <class Forward>
  torch::Tensor in_pass(Forward forward) {
    if constexpr (kIsModel)
      return optimizer_.run(forward);
    else
      return forward();
  }
  torch::Tensor forward(torch::Tensor values) {
    for (auto& layer : *network_)
      values = runner_(*layer.ptr(), [&] { return layer.template forward<torch::Tensor>(values); });
    return values;
  }

  std::vector<torch::Tensor> network_parameters() const {
    std::vector<torch::Tensor> parameters;
    for (const auto& each : network_->named_parameters()) {
      if (each.key() != "counts") parameters.push_back(each.value());
    }
    return parameters;
  }

  std::vector<torch::optim::OptimizerParamGroup> groups() const {
    std::vector<torch::optim::OptimizerParamGroup> groups{network_parameters()};
    groups.emplace_back(std::vector{counts_}, std::make_unique<torch::optim::SGDOptions>(1.0));
    return groups;
  }

  torch::Tensor inputs_, targets_;
  torch::nn::Sequential network_;
  torch::Tensor counts_;
  rueda::UnitRunner runner_;  // of a ShardedModel
  Optimizer optimizer_;
  std::vector<torch::Tensor> values_;  // of note_values()
};

// The numbers that the program keeps besides the model.
struct Progress {
  std::int64_t epoch = 0, steps = 0, light = 0, highest = 0;
  bool is_stopped = std::getenv("STOP") == nullptr;
};

bool all_ranks_see_stop() {
  const torch::Tensor seen =
      torch::tensor({rueda::rank() == 0 && std::filesystem::exists(std::getenv("STOP"))});
  return rueda::broadcast(seen, 0, "stop")[0].item<bool>();
}

template <class Optimizer>
void run(std::int64_t samples, std::int64_t epochs, double seconds) {
  const std::int64_t until = number_from("UNTIL_WORKER"), fails_at = number_from("FAILS_AT");
  const bool is_elastic = rueda::is_elastic();
  if (!is_elastic) rueda::init();
  const std::int64_t worker = is_elastic ? number_from("RUEDA_WORKER") : rueda::rank();
  if (is_named_by("REFUSING", worker)) ::_exit(3);
  say(fmt::format("worker {} is process {}", worker, ::getpid()));
  rueda::init();
  if (is_named_by("DIES_EARLY", worker)) std::raise(SIGKILL);
  Training<Optimizer> training(samples);
  rueda::elastic::Sampler sampler(static_cast<std::size_t>(samples));
  Progress progress;
  rueda::elastic::State state({{"network", training.network()},
                               {"optimizer", training.optimizer()},
                               {"sampler", sampler},
                               {"progress", progress}});
  rueda::elastic::run(state, [&] {
    say(fmt::format("worker {} begins as rank {} of {} at step {}", worker, rueda::rank(), rueda::size(),
                    progress.steps));
    const auto highest = rueda::allreduce(torch::tensor({worker}), "highest", {rueda::ReduceOp::max});
    while (progress.epoch < epochs || progress.highest < until || !progress.is_stopped) {
      while (const auto batch = sampler.next(kBatch)) {
        if (is_named_by("LATE_WORKER", worker)) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        training.train(*batch, seconds);
        sampler.record_batch(batch->size());
        if (++progress.steps == fails_at) throw std::runtime_error("this sample is broken");
        if (progress.steps == 7 && is_named_by("ENDS_EARLY", worker)) ::_exit(0);
        if (progress.steps == number_from("MISMATCHES_AT"))
          rueda::allreduce(torch::ones({2 + rueda::rank()}), "mismatch");
        progress.light += state.is_light() ? 1 : 0;
        state.commit();
        if (progress.steps % 5 == 0) say(fmt::format("worker {} step {}", worker, progress.steps));
      }
      ++progress.epoch;
      if (!progress.is_stopped) progress.is_stopped = all_ranks_see_stop();
      progress.highest = std::max(progress.highest, highest[0].item<std::int64_t>());
      sampler.set_epoch(static_cast<std::size_t>(progress.epoch));
      state.commit();
    }
    training.note_values();
  });
  if (rueda::rank() == 0) {
    say(fmt::format("epochs: {}, applied: {{{}}}", progress.epoch, training.applied()));
    say(fmt::format("sum: {:.17g}, steps: {}, light commits: {}", training.weighted_sum(), progress.steps,
                    progress.light));
  }
  rueda::shutdown();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: elastic_training SAMPLES EPOCHS SECONDS\n");
    return 2;
  }
  try {
    using torch::optim::SGD;
    const bool is_model = is_sharded() && std::string(std::getenv("SHARDED")) == "model";
    const auto train = is_model       ? run<rueda::ShardedModel<SGD>>
                       : is_sharded() ? run<rueda::ShardedOptimizer<SGD>>
                                      : run<rueda::DistributedOptimizer<SGD>>;
    train(std::atoll(arguments[1]), std::atoll(arguments[2]), std::atof(arguments[3]));
  } catch (const rueda::LeftJob&) {
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
