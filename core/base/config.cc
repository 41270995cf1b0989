// SPDX-License-Identifier: Apache-2.0
#include "core/base/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/number.h"

namespace rueda {
namespace {

template <class T>
bool parse(std::string_view text, T least, T most, T& value) {
  const std::optional<T> parsed = number_from<T>(text);
  if (!parsed || !(*parsed >= least && *parsed <= most)) return false;
  value = *parsed;
  return true;
}

template <class T>
Setting number(std::string_view name, std::string_view alias, T Config::*field, T least, T most,
               std::string_view legal, std::string_view meaning) {
  return {name,
          alias,
          legal,
          meaning,
          [=](Config& config, std::string_view text) { return parse(text, least, most, config.*field); },
          [=](const Config& config) { return fmt::format("{}", config.*field); }};
}

Setting text(std::string_view name, std::string_view alias, std::string Config::*field,
             std::string_view legal, std::string_view meaning) {
  return {name,
          alias,
          legal,
          meaning,
          [=](Config& config, std::string_view value) {
            config.*field = value;
            return true;
          },
          [=](const Config& config) { return config.*field; }};
}

Setting flag(std::string_view name, std::string_view alias, bool Config::*field, std::string_view meaning) {
  return {name,
          alias,
          "0 or 1",
          meaning,
          [=](Config& config, std::string_view value) {
            config.*field = value == "1";
            return value == "0" || value == "1";
          },
          [=](const Config& config) { return std::string(config.*field ? "1" : "0"); }};
}

void add_log(std::vector<Setting>& table) {
  table.push_back({"LOG_LEVEL", "HOROVOD_LOG_LEVEL", "trace, debug, info, warning, error, fatal or off",
                   "the least severe lines that are shown",
                   [](Config& config, std::string_view text) {
                     config.log_level = text;
                     return log_level_from(text).has_value();
                   },
                   [](const Config& config) { return config.log_level; }});
  table.push_back(flag("LOG_HIDE_TIME", "HOROVOD_LOG_HIDE_TIME", &Config::log_hide_time,
                       "leave the time out of log lines"));
}

Setting reduction_order() {
  return {"REDUCTION_ORDER",
          "",
          "any or fixed",
          "fixed: sums do not depend on where ranks are, nor, with a power of two of them, on how many; "
          "between hosts each rank then sends to every other",
          [](Config& config, std::string_view text) {
            config.reduction_order = text == "fixed" ? ReductionOrder::fixed : ReductionOrder::any;
            return text == "any" || text == "fixed";
          },
          [](const Config& config) { return std::string(to_string(config.reduction_order)); }};
}

void add_bootstrap(std::vector<Setting>& table) {
  table.push_back({"BOOTSTRAP", "",
                   "auto, launcher, mpi, pmi, pmix, torchrun, slurm, store, alone, or file: and a folder",
                   "how ranks find one another; auto: by the program that has started them. launcher: "
                   "ruedarun. store: RUEDA_STORE. file: by files in a "
                   "folder that all hosts share",
                   [](Config& config, std::string_view text) {
                     constexpr std::string_view kMethods[] = {"auto",     "launcher", "mpi",   "pmi",  "pmix",
                                                              "torchrun", "slurm",    "store", "alone"};
                     config.bootstrap = text;
                     return std::ranges::find(kMethods, text) != std::end(kMethods) ||
                            (text.starts_with("file:") && text.size() > 5);
                   },
                   [](const Config& config) { return config.bootstrap; }});
  table.push_back(
      text("STORE", "", &Config::store, "HOST:PORT, or nothing",
           "where rank 0 listens until all ranks have come; RUEDA_RANK and RUEDA_SIZE, or those of "
           "a launcher, number the ranks"));
}

void add_network(std::vector<Setting>& table) {
  table.push_back(
      {"NETWORK", "", "auto, tcp or mpi",
       "by what data goes between hosts; auto: tcp where MPI's own network is TCP and every rank has "
       "a card, else mpi",
       [](Config& config, std::string_view text) {
         config.network = text;
         return text == "auto" || text == "tcp" || text == "mpi";
       },
       [](const Config& config) { return config.network; }});
  table.push_back(text("RAILS", "", &Config::rails,
                       "names or addresses of network cards by commas, or nothing",
                       "the cards over which tcp sends, in this order; nothing: all that reach other hosts"));
  table.push_back(number("NETWORK_DEADLINE", "", &Config::network_deadline, 0.1, 86400.0,
                         "seconds, 0.1 to 86400",
                         "a host that tcp cannot reach for so long is lost; a cable may be out for less"));
  table.push_back(flag("ENCRYPT", "", &Config::encrypt,
                       "encrypt the data that tcp sends between hosts; messages of control always are"));
  table.push_back(number("RINGS", "", &Config::rings, std::int64_t{0}, std::int64_t{64}, "0 to 64",
                         "into how many parts, each a rank's, data is cut that goes from host to host; rank "
                         "0's counts; 0: as many as a host has ranks"));
}

// Up to how many bytes something goes a certain way.
Setting most_bytes(std::string_view name, std::int64_t Config::*field, std::string_view meaning) {
  return {name,
          "",
          "auto, or bytes, 0 to 16777216",
          meaning,
          [field](Config& config, std::string_view text) {
            if (text == "auto") config.*field = -1;
            return text == "auto" || parse(text, std::int64_t{0}, std::int64_t{16} << 20, config.*field);
          },
          [field](const Config& config) {
            return config.*field < 0 ? "auto" : fmt::format("{}", config.*field);
          }};
}

void add_short(std::vector<Setting>& table) {
  table.push_back(most_bytes("SHORT_BYTES", &Config::short_bytes,
                             "allreduces of at most so many bytes go by recursive doubling between hosts; "
                             "auto: as few messages are timed when a job of several hosts starts"));
  table.push_back(
      most_bytes("MEDIUM_BYTES", &Config::medium_bytes,
                 "allreduces longer than RUEDA_SHORT_BYTES and up to this size use recursive "
                 "halving and doubling, if the number of ranks is a power of two; longer ones use "
                 "a ring; auto: as messages are timed, none where SHORT_BYTES is given"));
  table.push_back(text("PROFILE", "", &Config::profile, "a file, or nothing for none",
                       "what messages between hosts cost: read by rank 0 where it is there, else measured "
                       "and written"));
}

void add_nccl(std::vector<Setting>& table) {
  table.push_back(
      number("NUM_NCCL_STREAMS", "HOROVOD_NUM_NCCL_STREAMS", &Config::nccl_streams, std::int64_t{1},
             std::int64_t{16}, "1 to 16",
             "communicators of NCCL, each with a stream, that a process set's operations take turns on"));
  table.push_back(flag(
      "NCCL_HIERARCHY", "HOROVOD_HIERARCHICAL_ALLREDUCE", &Config::nccl_hierarchy,
      "allreduces of device tensors go by NCCL inside each host only, and between hosts from rank to rank "
      "of equal index, by the host's own network; rank 0's counts; 0: NCCL goes between hosts, too"));
}

void add_tuner(std::vector<Setting>& table) {
  table.push_back(flag("AUTOTUNE", "HOROVOD_AUTOTUNE", &Config::autotune,
                       "rank 0 looks for a better fusion threshold, cycle time, ring chunk and route"));
  table.push_back(text("AUTOTUNE_LOG", "HOROVOD_AUTOTUNE_LOG", &Config::autotune_log,
                       "a file, or nothing for none",
                       "what the tuner tried and measured, as CSV, written by rank 0"));
  table.push_back(number("AUTOTUNE_WARMUP_SAMPLES", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
                         &Config::autotune_warmup_samples, std::int64_t{0}, std::int64_t{1000000},
                         "0 to 1000000", "samples before the tuner begins"));
  table.push_back(number("AUTOTUNE_STEPS_PER_SAMPLE", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
                         &Config::autotune_steps_per_sample, std::int64_t{1}, std::int64_t{100000},
                         "1 to 100000", "steps of which the tuner takes the median"));
  table.push_back(number("AUTOTUNE_CANDIDATES", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
                         &Config::autotune_candidates, std::int64_t{0}, std::int64_t{1000}, "0 to 1000",
                         "choices that the tuner measures in one search, at most"));
}

std::vector<Setting> make_settings() {
  constexpr std::int64_t kGiB = 1LL << 30;
  std::vector<Setting> table;
  table.push_back(number("FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", &Config::fusion_threshold,
                         std::int64_t{0}, 64 * kGiB, "bytes, 0 to 68719476736",
                         "tensors are fused into buffers of at most so many bytes; 0: never"));
  table.push_back(number("CYCLE_TIME", "HOROVOD_CYCLE_TIME", &Config::cycle_time, 0.0, 10000.0,
                         "milliseconds, 0 to 10000",
                         "how long a ready tensor may wait for others to be fused with, at most"));
  table.push_back(number("START_TIMEOUT", "HOROVOD_START_TIMEOUT", &Config::start_timeout, 0.1, 86400.0,
                         "seconds, 0.1 to 86400", "how long init waits for the other ranks"));
  table.push_back(
      number("WATCHDOG_TIME", "", &Config::watchdog_time, 0.0, 86400.0, "seconds, 0 to 86400",
             "a background thread that does not move for so long ends the process with a report; 0: never"));
  table.push_back(number("POLL_TIME", "", &Config::poll_time, 0.0, 1e6, "microseconds, 0 to 1000000",
                         "how long a background thread polls for the next thing to do before it sleeps"));
  table.push_back(number("WORKS_IN_FLIGHT", "", &Config::works_in_flight, std::int64_t{1}, std::int64_t{64},
                         "1 to 64", "how many operations move data at the same time, at most"));
  table.push_back(number("RING_CHUNK", "", &Config::ring_chunk, std::int64_t{64}, kGiB,
                         "bytes, 64 to 1073741824",
                         "rings, and copies through shared memory, move at most so many bytes at a time"));
  table.push_back(number("CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY", &Config::cache_capacity, std::int64_t{0},
                         std::int64_t{1} << 31, "requests, 0 to 2147483648",
                         "at least this many Requests that do not come again are remembered; those that do "
                         "are always remembered; 0: none"));
  table.push_back(reduction_order());
  table.push_back(
      flag("FULL_JOIN", "", &Config::full_join,
           "ranks that have joined take part in every operation, not only allreduce and barrier"));
  table.push_back(number("STALL_CHECK_TIME", "HOROVOD_STALL_CHECK_TIME_SECONDS", &Config::stall_check_time,
                         0.01, 86400.0, "seconds, 0.01 to 86400",
                         "an operation that only some ranks have submitted is reported after so long"));
  table.push_back(flag("STALL_CHECK_DISABLE", "HOROVOD_STALL_CHECK_DISABLE", &Config::stall_check_disable,
                       "do not report operations that only some ranks have submitted"));
  table.push_back(number("STALL_SHUTDOWN_TIME", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                         &Config::stall_shutdown_time, 0.0, 86400.0, "seconds, 0 to 86400",
                         "an operation that waits longer ends the job on all ranks with Stalled; 0: never"));
  add_bootstrap(table);
  table.push_back(flag("SHM", "", &Config::shm, "use shared memory inside a host"));
  table.push_back(
      number("WINDOW_LIMIT", "", &Config::window_limit, std::int64_t{0}, std::int64_t{1} << 40,
             "bytes, 0 to 1099511627776",
             "gradients, and tensors of rueda::empty, that a rank keeps in memory shared with its "
             "host, at most, and what the machine has; 0: none"));
  add_network(table);
  add_short(table);
  add_nccl(table);
  add_log(table);
  table.push_back(text("TIMELINE", "HOROVOD_TIMELINE", &Config::timeline,
                       "a file, or DYNAMIC or nothing for none",
                       "trace the job into this file, from init to shutdown; start_timeline works without"));
  table.push_back(flag("TIMELINE_MARK_CYCLES", "HOROVOD_TIMELINE_MARK_CYCLES", &Config::timeline_mark_cycles,
                       "mark the rounds of the background thread in that trace"));
  add_tuner(table);
  table.push_back(text("METRICS_FILE", "", &Config::metrics_file, "a file, or nothing for none",
                       "keep metrics in Prometheus' text format in this file; %r is the rank"));
  return table;
}

}  // namespace

std::span<const Setting> settings() {
  static const std::vector<Setting> table = make_settings();
  return table;
}

ConfigWithOrigins read_config(const std::function<const char*(const std::string&)>& environment) {
  ConfigWithOrigins result;
  for (const Setting& setting : settings()) {
    std::string variable = fmt::format("RUEDA_{}", setting.name);
    const char* value = environment(variable);
    if (value == nullptr && !setting.alias.empty()) {
      variable = setting.alias;
      value = environment(variable);
    }
    result.origins.push_back(value == nullptr ? "default" : variable);
    if (value != nullptr && !setting.read(result.config, value)) {
      throw InvalidArgument(Status::invalid_argument(fmt::format(
          "{}={}: not a legal value; it must be {} ({}).", variable, value, setting.legal, setting.meaning)));
    }
  }
  return result;
}

Config config_from_environment() {
  return read_config([](const std::string& name) { return std::getenv(name.c_str()); }).config;
}

}  // namespace rueda
