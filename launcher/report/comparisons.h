// SPDX-License-Identifier: Apache-2.0
// Comparisons of several runs: the time by ranks, and the gain and cost of synchronising less
// often.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/run_record.h"

namespace rueda::report {

using Runs = std::vector<const RunRecord*>;

// The runs on one number of ranks; means over them.
struct ScalingPoint {
  std::int64_t ranks = 1;
  std::int64_t hosts = 1;
  std::size_t runs = 0;
  std::string other_sync;  // of a baseline that has another schedule than its series
  double samples_per_s = 0;
  double devices = 1;     // ranks per rank of the baseline
  double time = 1;        // for as many samples, of the baseline's
  double efficiency = 1;  // speed-up per device
};

// Runs of one schedule, on one host or on several. The baseline, the first point, is the 1-rank run of that
// schedule, or of another (alone, schedules differ little), or else the fewest ranks that there are.
struct ScalingSeries {
  std::string name;
  std::vector<ScalingPoint> points;
};

// Only series of two numbers of ranks or more; runs without samples_per_s count nowhere.
std::vector<ScalingSeries> scaling_of(const Runs& runs);

// The runs that synchronise once per `batches`; means over them.
struct SyncPoint {
  double batches = 1;
  std::size_t runs = 0;
  std::optional<double> samples_per_s;
  std::optional<double> time;     // for as many samples, of the first point's
  std::optional<double> quality;  // the measure of quality_key
};

// Runs of one kind of schedule and one optimizer on the same ranks and hosts. Synchronising at every step
// belongs to each kind.
struct SyncSeries {
  std::string name;
  std::vector<SyncPoint> points;
};

// Only series of two frequencies or more.
std::vector<SyncSeries> sync_of(const Runs& runs);

// Batches from one synchronisation to the next; nothing for schedules that have no fixed number.
std::optional<double> batches_per_sync(const RunRecord& run);

// The results by which runs are compared: F1 if two have it, else the next in the list of the source; or
// empty.
std::string quality_key(const Runs& runs);

}  // namespace rueda::report
