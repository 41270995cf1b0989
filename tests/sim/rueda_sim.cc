// SPDX-License-Identifier: Apache-2.0
// rueda-sim: how long N ranks take to agree, to start, or to go on without those that are lost, by the real
// Negotiators, Bootstraps or Membership on a simulated network.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/sim/experiment.h"
#include "tests/sim/sim_options.h"

namespace rueda {
namespace {

double resident_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void print_losses(const Experiment& experiment, const Result& result) {
  if (result.losses.empty()) return;
  constexpr std::size_t kShown = 8;
  fmt::print("one more step, in which ranks fall silent; neighbours are told within {} us\n",
             experiment.notice);
  for (std::size_t i = 0; i < std::min(kShown, result.losses.size()); ++i)
    fmt::print("  rank {} after {:.1f} us\n", result.losses[i].rank, result.losses[i].after);
  if (result.losses.size() > kShown) fmt::print("  and {} more\n", result.losses.size() - kShown);
  fmt::print("from the first loss to each survivor's knowing, us{:9.1f}{:9.1f}{:9.1f}\n", result.known.p50,
             result.known.p99, result.known.most);
  if (result.reasons.size() == 1) {
    fmt::print("in the same words everywhere: {}\n", result.reasons.front());
  } else {
    fmt::print("in {} different words, each naming a lost rank: {}\n", result.reasons.size(),
               result.reasons.front());
  }
}

void print(const Experiment& experiment, const Result& result, double wall) {
  const ClusterShape& shape = experiment.shape;
  fmt::print("{} ranks, {} a host, radix {}; {} tensors; {} us a hop, {} us a message, skew {} us",
             shape.ranks, shape.ranks_per_host, shape.radix, experiment.tensors, shape.hop, shape.message,
             experiment.skew);
  if (experiment.stragglers > 0)
    fmt::print(", {} stragglers by {} us", experiment.stragglers, experiment.straggler_delay);
  fmt::print("\nfrom the last rank ready to each rank told, us     p50      p99      max\n");
  fmt::print("  first time                                 {:9.1f}{:9.1f}{:9.1f}\n", result.first.p50,
             result.first.p99, result.first.most);
  fmt::print("  cached, {:3} steps                          {:9.1f}{:9.1f}{:9.1f}\n", experiment.steps,
             result.cached.p50, result.cached.p99, result.cached.most);
  fmt::print(
      "a cached step: {} messages, the largest {} bytes; rank 0 sends and receives {} bytes "
      "({} the first time)\n",
      result.messages, result.largest_message, result.root_bytes, result.first_root_bytes);
  print_losses(experiment, result);
  if (!experiment.trace.empty()) {
    fmt::print("timeline of {} of {}: {}\n",
               to_string(RankSet(0, std::min(experiment.trace_ranks, shape.ranks))), shape.ranks,
               experiment.trace);
  }
  fmt::print("simulated in {:.1f} s, {:.0f} MB\n", wall, resident_megabytes());
}

nlohmann::json summary(const Experiment& experiment, const Result& result, double wall) {
  nlohmann::json summary{{"ranks", experiment.shape.ranks},
                         {"tensors", experiment.tensors},
                         {"cached_p50_us", result.cached.p50},
                         {"cached_p99_us", result.cached.p99},
                         {"first_p50_us", result.first.p50},
                         {"first_p99_us", result.first.p99},
                         {"root_bytes", result.root_bytes},
                         {"messages", result.messages},
                         {"wall_s", wall},
                         {"rss_mb", resident_megabytes()}};
  if (result.losses.empty()) return summary;
  std::vector<Rank> lost;
  for (const Result::Loss& loss : result.losses) lost.push_back(loss.rank);
  summary["lost_ranks"] = lost;  // the first comes first
  summary["lost_known_p50_us"] = result.known.p50;
  summary["lost_known_max_us"] = result.known.most;
  summary["lost_reasons"] = result.reasons;
  return summary;
}

void print(const Experiment& experiment, const StartResult& result, double wall) {
  const ClusterShape& shape = experiment.shape;
  fmt::print(
      "the start of {} ranks, {} a host, radix {}; {} us a hop, {} us a message, {} us a connection, "
      "{} Gbit/s a host\n",
      shape.ranks, shape.ranks_per_host, tree::kRadix, shape.hop, shape.message,
      experiment.start_costs.connect, experiment.start_costs.gigabits);
  fmt::print("  rank 0 has heard all ranks after           {:9.1f} ms\n", result.all_heard / 1e3);
  fmt::print("  every rank has the list of ranks after     {:9.1f} ms\n", result.all_told / 1e3);
  fmt::print("  rank 0: {} connections, {} bytes received, {} sent; the list is {} bytes\n",
             result.connections, result.root_received, result.root_sent, result.list);
  fmt::print("  the most that another rank sends: {} bytes. Without relays rank 0 would send {} bytes\n",
             result.most_relayed, result.direct);
  fmt::print("simulated in {:.1f} s, {:.0f} MB\n", wall, resident_megabytes());
}

nlohmann::json summary(const Experiment& experiment, const StartResult& result, double wall) {
  return {{"ranks", experiment.shape.ranks},
          {"all_heard_ms", result.all_heard / 1e3},
          {"all_told_ms", result.all_told / 1e3},
          {"root_connections", result.connections},
          {"root_received", result.root_received},
          {"root_sent", result.root_sent},
          {"list_bytes", result.list},
          {"most_relayed", result.most_relayed},
          {"direct", result.direct},
          {"wall_s", wall},
          {"rss_mb", resident_megabytes()}};
}

std::string happenings_of(const Losses& losses) {
  std::string words;
  const auto add = [&](int count, std::string_view what) {
    if (count > 0) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", count, what);
  };
  add(losses.ranks, "lost");
  add(losses.hosts, "hosts lost");
  add(losses.joins, "more come");
  return words + (losses.root ? ", rank 0 among the lost" : "");
}

void print(const Experiment& experiment, const LossesResult& result, double wall) {
  const ClusterShape& shape = experiment.shape;
  const Losses& losses = experiment.losses;
  fmt::print(
      "an elastic job of {} ranks, {} a host: {}, all within {} us; {} us a hop, {} us a message of ruedarun "
      "or "
      "an agent, {} us a connection, {} Gbit/s a host\n",
      shape.ranks, shape.ranks_per_host, happenings_of(losses), losses.within, shape.hop, losses.message,
      experiment.start_costs.connect, experiment.start_costs.gigabits);
  fmt::print("  every rank has heard that its generation is over {:9.1f} ms\n", result.all_broken / 1e3);
  fmt::print("  ruedarun has made generation {:<5}               {:9.1f} ms\n", result.generations,
             result.decided / 1e3);
  fmt::print("  all {:7} ranks are in it                      {:9.1f} ms\n", result.ranks,
             result.all_in / 1e3);
  const auto print_traffic = [](std::string_view who, const Traffic& received, const Traffic& sent) {
    fmt::print("  {}: {} messages received, {} bytes; {} sent, {} bytes\n", who, received.messages,
               received.bytes, sent.messages, sent.bytes);
  };
  print_traffic("ruedarun", result.supervisor_received, result.supervisor_sent);
  print_traffic("rank 0", result.root_received, result.root_sent);
  fmt::print("  the longest list of workers: {} bytes, of 8192 that a packet holds\n", result.text);
  fmt::print("simulated in {:.1f} s, {:.2f} s of them in Membership, {:.0f} MB\n", wall,
             result.seconds_of_membership, resident_megabytes());
}

nlohmann::json summary(const Experiment& experiment, const LossesResult& result, double wall) {
  return {{"ranks", experiment.shape.ranks},
          {"generations", result.generations},
          {"ranks_left", result.ranks},
          {"all_broken_ms", result.all_broken / 1e3},
          {"decided_ms", result.decided / 1e3},
          {"all_in_ms", result.all_in / 1e3},
          {"supervisor_received_messages", result.supervisor_received.messages},
          {"supervisor_received", result.supervisor_received.bytes},
          {"supervisor_sent_messages", result.supervisor_sent.messages},
          {"supervisor_sent", result.supervisor_sent.bytes},
          {"root_connections", result.root_received.messages},
          {"root_received", result.root_received.bytes},
          {"root_sent", result.root_sent.bytes},
          {"list_bytes", result.text},
          {"membership_s", result.seconds_of_membership},
          {"wall_s", wall},
          {"rss_mb", resident_megabytes()}};
}

// Opened before the work: a path that cannot be written is told at once.
std::ofstream open_summary(const std::string& path) {
  std::ofstream file;
  if (path.empty()) return file;
  file.open(path);
  if (!file) throw std::runtime_error(fmt::format("--json: cannot write '{}'", path));
  return file;
}

void simulate(const Experiment& experiment) {
  std::ofstream file = open_summary(experiment.json);
  const auto show = [&](const auto& run) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    print(experiment, result, wall.count());
    file << summary(experiment, result, wall.count()).dump(2) << '\n';
  };
  if (experiment.start) {
    show([&] { return simulate_start(experiment.shape, experiment.start_costs); });
  } else if (experiment.elastic) {
    show([&] { return simulate_losses(experiment.shape, experiment.start_costs, experiment.losses); });
  } else {
    show([&] { return run(experiment); });
  }
  if (experiment.json.empty()) return;
  if (!file.flush()) throw std::runtime_error(fmt::format("--json: cannot write '{}'", experiment.json));
}

}  // namespace
}  // namespace rueda

int main(int argc, char** argv) {
  try {
    if (const std::optional<rueda::Experiment> experiment = rueda::read_options(argc, argv))
      rueda::simulate(*experiment);
    return 0;
  } catch (const boost::program_options::error& error) {
    fmt::print(stderr, "error: {}. See rueda-sim --help.\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
