// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_options.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <iostream>
#include <string>
#include <string_view>

namespace rueda {
namespace {

namespace options = boost::program_options;

constexpr double kMostTime = 1e9;  // microseconds

options::options_description all_options(Experiment& experiment) {
  ClusterShape& shape = experiment.shape;
  auto value = [](auto& target) { return options::value(&target)->default_value(target); };
  options::options_description all("rueda-sim: N ranks agree, on a simulated network");
  auto add = all.add_options();
  add("help,h", "this text");
  add("ranks", value(shape.ranks), "ranks of the job");
  add("tensors", value(experiment.tensors), "tensors that each rank submits in a step");
  add("ranks-per-host", value(shape.ranks_per_host), "ranks under one leader");
  add("radix", value(shape.radix), "leaders under one leader");
  add("hop-us", value(shape.hop), "latency of a link");
  add("message-us", value(shape.message), "what sending or receiving a message costs a node");
  add("skew-us", value(experiment.skew), "ranks are ready within so long of each other");
  add("stragglers", value(experiment.stragglers), "ranks that are late, others in each step");
  add("straggler-us", value(experiment.straggler_delay), "how late they are");
  add("lost", value(experiment.lost),
      "ranks that fall silent in one more step, each at a random moment of it; printed: how long until every "
      "survivor knows, and with which words");
  add("notice-us", value(experiment.notice),
      "within so long the neighbours of a lost rank in the tree are told");
  add("linger-us", value(shape.linger), "the setting RUEDA_CYCLE_TIME");
  add("cache-capacity", value(shape.cache_capacity), "the setting RUEDA_CACHE_CAPACITY");
  add("steps", value(experiment.steps), "steps after the first (at least 1)");
  add("seed", value(experiment.seed), "of what is random");
  add("start", options::bool_switch(&experiment.start), "the start of the job, and nothing else");
  add("connect-us", value(experiment.start_costs.connect),
      "of a start: what taking a connection costs a rank, keys included");
  add("gbit", value(experiment.start_costs.gigabits), "of a start: Gbit/s of a host");
  add("elastic", options::bool_switch(&experiment.elastic),
      "an elastic job that loses --lost ranks, and nothing else: how long until the others go on, and what "
      "that "
      "takes. --skew-us: a rank gives its operations up within so long of hearing of a loss");
  add("lost-hosts", value(experiment.losses.hosts),
      "of an elastic job: hosts that are lost with all their ranks");
  add("lose-root", options::bool_switch(&experiment.losses.root),
      "of an elastic job: rank 0 is among the lost");
  add("joins", value(experiment.losses.joins), "of an elastic job: workers that come");
  add("within-us", value(experiment.losses.within), "of an elastic job: all that happens within so long");
  add("commit-us", value(experiment.losses.habits.commit),
      "of an elastic job: a rank that hears of workers that wait leaves within so long");
  add("tell-us", value(experiment.losses.message),
      "of an elastic job: what a message costs ruedarun or an agent");
  add("json", options::value(&experiment.json), "write a summary there");
  add("trace", options::value(&experiment.trace), "write a timeline there, for Perfetto");
  add("trace-ranks", value(experiment.trace_ranks), "of so many ranks, from rank 0 on");
  return all;
}

// Also false for what is no number.
void check(std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw options::error(fmt::format("--{} is {}; it must be {} to {}", name, value, least, most));
}

Rank hosts_of(const ClusterShape& shape) {
  return (shape.ranks + shape.ranks_per_host - 1) / shape.ranks_per_host;
}

void check(const Experiment& experiment) {
  const ClusterShape& shape = experiment.shape;
  check("ranks", shape.ranks, 1, 10e6);
  check("tensors", experiment.tensors, 1, 1e6);
  check("ranks-per-host", shape.ranks_per_host, 1, 10'000);
  check("radix", shape.radix, 1, 10'000);
  check("hop-us", shape.hop, 0, kMostTime);
  check("message-us", shape.message, 0, kMostTime);
  check("skew-us", experiment.skew, 0, kMostTime);
  check("stragglers", experiment.stragglers, 0, shape.ranks);
  check("straggler-us", experiment.straggler_delay, 0, kMostTime);
  check("lost", experiment.lost, 0, shape.ranks - 1);
  check("notice-us", experiment.notice, 0, kMostTime);
  check("linger-us", shape.linger, 0, kMostTime);
  check("cache-capacity", static_cast<double>(shape.cache_capacity), 0, 1e9);
  check("steps", experiment.steps, 1, 1e6);
  check("connect-us", experiment.start_costs.connect, 0, kMostTime);
  check("gbit", experiment.start_costs.gigabits, 1e-3, 1e6);
  check("lost-hosts", experiment.losses.hosts, 0, hosts_of(shape) - 1);
  check("joins", experiment.losses.joins, 0, 1e6);
  check("within-us", experiment.losses.within, 0, kMostTime);
  check("commit-us", experiment.losses.habits.commit, 0, kMostTime);
  check("tell-us", experiment.losses.message, 0, kMostTime);
  check("trace-ranks", experiment.trace_ranks, 1, 1024);
}

// Some rank has to be left.
void check_losses(const Experiment& experiment) {
  if (!experiment.elastic) return;
  const Losses& losses = experiment.losses;
  const Rank lost = losses.ranks + losses.hosts * experiment.shape.ranks_per_host;
  if (lost + losses.joins == 0)
    throw options::error("--elastic without --lost, --lost-hosts or --joins: nothing would happen");
  check("lost with the ranks of --lost-hosts", lost, 0, experiment.shape.ranks - 1);
}

}  // namespace

std::optional<Experiment> read_options(int argc, char** argv) {
  Experiment experiment;
  const options::options_description all = all_options(experiment);
  options::variables_map given;
  options::store(options::command_line_parser(argc, argv).options(all).positional({}).run(), given);
  options::notify(given);
  if (given.contains("help")) {
    std::cout << all;
    return std::nullopt;
  }
  check(experiment);
  experiment.losses.ranks = experiment.lost;
  experiment.losses.habits.skew = experiment.skew;
  experiment.losses.habits.seed = experiment.seed;
  check_losses(experiment);
  return experiment;
}

}  // namespace rueda
