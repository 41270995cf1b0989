// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/comparisons.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

namespace rueda::report {
namespace {

// The mean of the added values; empty if none was added.
class Mean {
 public:
  void add(std::optional<double> value) {
    if (!value) return;
    sum_ += *value;
    ++count_;
  }
  std::optional<double> value() const {
    return count_ == 0 ? std::nullopt : std::optional(sum_ / static_cast<double>(count_));
  }

 private:
  double sum_ = 0;
  std::size_t count_ = 0;
};

bool has_speed(const RunRecord* run) { return run->samples_per_s.value_or(0) > 0; }

// "diloco:50:0.7:0.9" -> "diloco".
std::string kind_of(const RunRecord& run) { return run.sync.substr(0, run.sync.find(':')); }

// Runs of one schedule, with a network between their ranks or without; in order of the command line.
struct ScalingGroup {
  std::string sync;
  bool several_hosts = false;
  std::map<std::int64_t, Runs> by_ranks;
};

ScalingPoint point_of(const Runs& runs) {
  Mean speed;
  for (const RunRecord* run : runs) speed.add(run->samples_per_s);
  return {
      .ranks = runs[0]->ranks, .hosts = runs[0]->hosts, .runs = runs.size(), .samples_per_s = *speed.value()};
}

// The base of a series on more ranks: runs of one rank, of the same schedule if there are any.
Runs alone(const Runs& runs, const std::string& sync) {
  Runs same, others;
  for (const RunRecord* run : runs) {
    if (run->ranks == 1 && has_speed(run)) (run->sync == sync ? same : others).push_back(run);
  }
  return same.empty() ? others : same;
}

void relate_to_first(std::vector<ScalingPoint>& points) {
  const ScalingPoint base = points[0];
  for (ScalingPoint& point : points) {
    point.devices = static_cast<double>(point.ranks) / static_cast<double>(base.ranks);
    point.time = base.samples_per_s / point.samples_per_s;
    point.efficiency = 1 / point.time / point.devices;
  }
}

// The common settings of runs whose frequencies are compared.
struct SyncGroup {
  std::int64_t ranks = 1;
  std::int64_t hosts = 1;
  std::string optimizer;
  std::string kind;

  bool same_setup(const SyncGroup& other) const {
    return ranks == other.ranks && hosts == other.hosts && optimizer == other.optimizer;
  }
  bool operator==(const SyncGroup&) const = default;
  bool has(const RunRecord& run) const {
    return same_setup({run.ranks, run.hosts, run.optimizer, {}}) && batches_per_sync(run).has_value() &&
           (run.sync == "every_step" || kind_of(run) == kind);
  }
};

SyncSeries series_of(const Runs& runs, const SyncGroup& group, const std::string& quality) {
  std::map<double, Runs> by_batches;
  for (const RunRecord* run : runs) {
    if (group.has(*run)) by_batches[*batches_per_sync(*run)].push_back(run);
  }
  SyncSeries series{.name = fmt::format("{}, {} ranks", group.kind, group.ranks)};
  if (group.hosts > 1) series.name += fmt::format(" on {} hosts", group.hosts);
  for (const auto& [batches, same] : by_batches) {
    Mean speed, measure;
    for (const RunRecord* run : same) {
      if (has_speed(run)) speed.add(run->samples_per_s);
      measure.add(run->result(quality));
    }
    series.points.push_back({batches, same.size(), speed.value(), std::nullopt, measure.value()});
  }
  if (series.points.empty() || !series.points[0].samples_per_s) return series;
  const double first = *series.points[0].samples_per_s;
  for (SyncPoint& point : series.points) {
    if (point.samples_per_s) point.time = first / *point.samples_per_s;
  }
  return series;
}

}  // namespace

std::vector<ScalingSeries> scaling_of(const Runs& runs) {
  std::vector<ScalingGroup> groups;
  for (const RunRecord* run : runs) {
    if (!has_speed(run) || run->ranks < 2) continue;
    const auto found = std::ranges::find_if(groups, [&](const ScalingGroup& group) {
      return group.sync == run->sync && group.several_hosts == (run->hosts > 1);
    });
    ScalingGroup& group =
        found == groups.end() ? groups.emplace_back(ScalingGroup{run->sync, run->hosts > 1, {}}) : *found;
    group.by_ranks[run->ranks].push_back(run);
  }
  const bool hosts_differ = std::ranges::any_of(groups, &ScalingGroup::several_hosts);
  std::vector<ScalingSeries> all;
  for (const ScalingGroup& group : groups) {
    ScalingSeries series{.name = group.sync.empty() ? "runs" : group.sync};
    if (hosts_differ) series.name += group.several_hosts ? ", between hosts" : ", one host";
    if (const Runs base = alone(runs, group.sync); !base.empty()) {
      series.points.push_back(point_of(base));
      if (base[0]->sync != group.sync) series.points[0].other_sync = base[0]->sync;
    }
    for (const auto& [ranks, same] : group.by_ranks) series.points.push_back(point_of(same));
    if (series.points.size() < 2) continue;
    relate_to_first(series.points);
    all.push_back(std::move(series));
  }
  return all;
}

std::optional<double> batches_per_sync(const RunRecord& run) {
  const auto passes = static_cast<double>(run.passes);
  if (run.sync == "every_step") return passes;
  const std::string kind = kind_of(run);
  if (kind != "accumulate" && kind != "local_sgd" && kind != "diloco") return std::nullopt;
  const char* begin = run.sync.data() + std::min(kind.size() + 1, run.sync.size());
  std::int64_t steps = 0;
  const auto read = std::from_chars(begin, run.sync.data() + run.sync.size(), steps);
  if (read.ec != std::errc() || steps < 1) return std::nullopt;
  return static_cast<double>(steps) * passes;
}

std::string quality_key(const Runs& runs) {
  constexpr std::array<const char*, 9> kKeys = {
      "f1",       "short_f1",          "long_f1",   "exact_match", "loss_held_out",
      "accuracy", "pseudo_perplexity", "loss_last", "loss"};
  for (const char* key : kKeys) {
    if (std::ranges::count_if(runs, [&](const RunRecord* run) { return run->result(key).has_value(); }) >= 2)
      return key;
  }
  return {};
}

std::vector<SyncSeries> sync_of(const Runs& runs) {
  const std::string quality = quality_key(runs);
  std::set<std::string> optimizers;
  std::vector<SyncGroup> groups;
  for (const RunRecord* run : runs) {
    optimizers.insert(run->optimizer);
    if (run->ranks < 2 || !batches_per_sync(*run)) continue;
    const SyncGroup group{run->ranks, run->hosts, run->optimizer, kind_of(*run)};
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  std::vector<SyncSeries> all;
  for (const SyncGroup& group : groups) {
    // Synchronising at every step belongs to the other kinds; alone it is one, by its backward passes.
    if (group.kind == "every_step" && std::ranges::any_of(groups, [&](const SyncGroup& other) {
          return other.kind != group.kind && other.same_setup(group);
        }))
      continue;
    SyncSeries series = series_of(runs, group, quality);
    if (series.points.size() < 2) continue;
    if (optimizers.size() > 1 && !group.optimizer.empty()) series.name += ", " + group.optimizer;
    all.push_back(std::move(series));
  }
  return all;
}

}  // namespace rueda::report
