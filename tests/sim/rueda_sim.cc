// SPDX-License-Identifier: Apache-2.0
// rueda-sim: how long N ranks take to agree, by the real Negotiators on a simulated network.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/sim/simulated_network.h"

namespace rueda {
namespace {

namespace options = boost::program_options;

struct Experiment {
  ClusterShape shape;
  int tensors = 200;
  int steps = 20;
  std::uint32_t seed = 1;
  double skew = 0;  // each rank is ready within so many microseconds of the first
  int stragglers = 0;
  double straggler_delay = 1000;
  std::string json;
};

// Of the time from the last rank's being ready to each rank's being told the last tensor.
struct Percentiles {
  double p50 = 0, p99 = 0, most = 0;
};

Percentiles percentiles(std::vector<double>& values) {
  if (values.empty()) return {};
  auto at = [&](double share) {
    const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::ranges::nth_element(values, values.begin() + place);
    return values[place];
  };
  return {at(0.5), at(0.99), at(1.0)};
}

struct Result {
  Percentiles first, cached;
  std::uint64_t first_root_bytes = 0, root_bytes = 0, messages = 0, largest_message = 0;  // of one step
};

std::vector<SharedRequest> requests_of_a_model(int tensors) {
  std::vector<SharedRequest> requests;
  for (int i = 0; i < tensors; ++i) {
    Request request;
    request.name = fmt::format("gradient.0.encoder.layer.{}.weight", i);
    request.shape = {1024};
    requests.push_back(std::make_shared<const Request>(std::move(request)));
  }
  return requests;
}

// One step: every rank submits every tensor when it is ready. Returns each rank's delay.
std::vector<double> run_step(SimulatedNetwork& network, const Experiment& experiment,
                             const std::vector<SharedRequest>& requests, std::mt19937& random) {
  const double begin = network.now() + 10;
  std::uniform_real_distribution<double> skew(0, experiment.skew);
  std::vector<double> ready(network.size(), begin);
  for (double& time : ready) time += experiment.skew > 0 ? skew(random) : 0;
  for (int i = 0; i < experiment.stragglers; ++i)
    ready[random() % ready.size()] += experiment.straggler_delay;
  for (Rank rank = 0; rank < network.size(); ++rank) {
    network.at(ready[rank], rank, [&](Negotiator& node, Time now) {
      for (const SharedRequest& request : requests) node.submit(request, now);
    });
  }
  const double last_ready = *std::ranges::max_element(ready);
  std::vector<int> missing(network.size(), static_cast<int>(requests.size()));
  std::vector<double> delays;
  delays.reserve(ready.size());
  network.run([&](Rank rank, const Plan& plan, double time) {
    missing[rank] -= static_cast<int>(plan.tensors.size());
    if (missing[rank] == 0) delays.push_back(time - last_ready);
  });
  if (delays.size() != ready.size())
    throw std::runtime_error(fmt::format("{} of {} ranks were told everything", delays.size(), ready.size()));
  return delays;
}

Result run(const Experiment& experiment) {
  SimulatedNetwork network(experiment.shape);
  std::mt19937 random(experiment.seed);
  const std::vector<SharedRequest> requests = requests_of_a_model(experiment.tensors);
  Result result;
  std::vector<double> first = run_step(network, experiment, requests, random), cached;
  result.first = percentiles(first);
  result.first_root_bytes = network.traffic().root_bytes;
  network.reset_traffic();
  for (int step = 0; step < experiment.steps; ++step) {
    const std::vector<double> delays = run_step(network, experiment, requests, random);
    cached.insert(cached.end(), delays.begin(), delays.end());
  }
  const auto steps = static_cast<std::uint64_t>(std::max(experiment.steps, 1));
  result.cached = percentiles(cached);
  result.root_bytes = network.traffic().root_bytes / steps;
  result.messages = network.traffic().messages / steps;
  result.largest_message = network.traffic().largest_message;
  return result;
}

double resident_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void report(const Experiment& experiment, const Result& result, double wall) {
  fmt::print("{} ranks, {} a host, radix {}; {} tensors; {} us a hop, {} us a message, skew {} us\n",
             experiment.shape.ranks, experiment.shape.ranks_per_host, experiment.shape.radix,
             experiment.tensors, experiment.shape.hop, experiment.shape.message, experiment.skew);
  fmt::print("from the last rank ready to each rank told, us     p50      p99      max\n");
  fmt::print("  first time                                 {:9.1f}{:9.1f}{:9.1f}\n", result.first.p50,
             result.first.p99, result.first.most);
  fmt::print("  cached, {:3} steps                          {:9.1f}{:9.1f}{:9.1f}\n", experiment.steps,
             result.cached.p50, result.cached.p99, result.cached.most);
  fmt::print(
      "a cached step: {} messages, the largest {} bytes; rank 0 sends and receives {} bytes "
      "({} the first time)\n",
      result.messages, result.largest_message, result.root_bytes, result.first_root_bytes);
  fmt::print("simulated in {:.1f} s, {:.0f} MB\n", wall, resident_megabytes());
  if (experiment.json.empty()) return;
  const nlohmann::json summary{{"ranks", experiment.shape.ranks},
                               {"tensors", experiment.tensors},
                               {"cached_p50_us", result.cached.p50},
                               {"cached_p99_us", result.cached.p99},
                               {"first_p50_us", result.first.p50},
                               {"first_p99_us", result.first.p99},
                               {"root_bytes", result.root_bytes},
                               {"messages", result.messages},
                               {"wall_s", wall},
                               {"rss_mb", resident_megabytes()}};
  std::ofstream file(experiment.json);
  file << summary.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + experiment.json);
}

// Nothing when the command line has been answered already.
std::optional<Experiment> read_options(int argc, char** argv) {
  Experiment experiment;
  ClusterShape& shape = experiment.shape;
  options::options_description all("rueda-sim: N ranks agree, on a simulated network");
  auto value = [](auto& target) { return options::value(&target)->default_value(target); };
  all.add_options()("help,h", "this text")("ranks", value(shape.ranks), "ranks of the job")(
      "tensors", value(experiment.tensors), "tensors that each rank submits in a step")(
      "ranks-per-host", value(shape.ranks_per_host), "ranks under one leader")("radix", value(shape.radix),
                                                                               "leaders under one leader")(
      "hop-us", value(shape.hop), "latency of a link")("message-us", value(shape.message),
                                                       "what sending or receiving a message costs a node")(
      "skew-us", value(experiment.skew), "ranks are ready within so long of each other")(
      "stragglers", value(experiment.stragglers), "ranks that are late, others in each step")(
      "straggler-us", value(experiment.straggler_delay), "how late they are")(
      "linger-us", value(shape.linger), "the setting RUEDA_CYCLE_TIME")(
      "cache-capacity", value(shape.cache_capacity), "the setting RUEDA_CACHE_CAPACITY")(
      "steps", value(experiment.steps), "steps after the first")(
      "seed", value(experiment.seed), "of what is random")("json", options::value(&experiment.json),
                                                           "write a summary there");
  options::variables_map given;
  options::store(options::parse_command_line(argc, argv, all), given);
  options::notify(given);
  if (given.contains("help")) {
    std::cout << all;
    return std::nullopt;
  }
  if (shape.ranks < 1 || shape.ranks > 10'000'000 || shape.ranks_per_host < 1 || shape.radix < 1 ||
      experiment.tensors < 1 || experiment.steps < 0 || shape.hop < 0 || shape.message < 0 ||
      experiment.skew < 0 || experiment.stragglers < 0 || shape.cache_capacity < 0) {
    throw options::error(
        "numbers must not be negative, and at least 1 for ranks, tensors, ranks-per-host and radix");
  }
  return experiment;
}

}  // namespace
}  // namespace rueda

int main(int argc, char** argv) {
  try {
    const std::optional<rueda::Experiment> experiment = rueda::read_options(argc, argv);
    if (!experiment) return 0;
    const auto begin = std::chrono::steady_clock::now();
    const rueda::Result result = rueda::run(*experiment);
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    rueda::report(*experiment, result, wall.count());
    return 0;
  } catch (const boost::program_options::error& error) {
    fmt::print(stderr, "error: {}. See rueda-sim --help.\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
