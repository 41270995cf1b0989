// SPDX-License-Identifier: Apache-2.0
// The settings of a Runtime, in one table: name, Horovod alias, default and meaning. RUEDA_SECRET and other
// variables are read elsewhere (docs/settings.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/types.h"

namespace rueda {

// Purpose: the settings of one Runtime, read once at init. A plain value; defaults are the documented ones.
struct Config {
  std::int64_t fusion_threshold = 64 << 20;  // bytes
  double cycle_time = 1.0;                   // milliseconds
  double start_timeout = 30.0;               // seconds
  double watchdog_time = 10.0;               // seconds
  double poll_time = 50.0;                   // microseconds
  std::int64_t works_in_flight = 4;
  std::int64_t ring_chunk = 256 << 10;  // bytes
  std::int64_t cache_capacity = 1024;   // requests
  ReductionOrder reduction_order = ReductionOrder::any;
  bool full_join = false;
  double stall_check_time = 3.0;  // seconds
  bool stall_check_disable = false;
  double stall_shutdown_time = 0.0;  // seconds
  std::string bootstrap = "auto";    // how ranks find one another
  std::string store;                 // HOST:PORT at which rank 0 listens; empty: found otherwise
  bool shm = true;
  std::int64_t window_limit = std::int64_t{1} << 40;  // bytes
  std::string network = "auto";                       // by what data goes between hosts: tcp, mpi or auto
  std::string rails;                                  // network cards, by commas; empty: all
  double network_deadline = 10.0;                     // seconds
  bool encrypt = false;                               // data between hosts
  std::int64_t rings = 0;                             // between hosts at a time; 0: as many as ranks on one
  std::int64_t short_bytes = -1;                      // negative: by what messages cost
  std::int64_t medium_bytes = -1;                     // ... too; none where short_bytes is given
  std::string profile;                                // a file, or empty
  std::int64_t nccl_streams = 1;
  bool nccl_hierarchy = false;
  std::string log_level = "warning";
  bool log_hide_time = false;
  std::string timeline;  // a file, DYNAMIC or empty
  bool timeline_mark_cycles = false;
  std::string metrics_file;  // empty: none
  bool autotune = false;
  std::string autotune_log;  // empty: none
  std::int64_t autotune_warmup_samples = 3;
  std::int64_t autotune_steps_per_sample = 10;
  std::int64_t autotune_candidates = 20;
};

// One row of the table. `read` sets the field from text and returns false when the text is no legal value.
struct Setting {
  std::string_view name;   // RUEDA_<NAME> in the environment
  std::string_view alias;  // a variable of Horovod's that means the same, or empty
  std::string_view legal;  // what a legal value is, in words
  std::string_view meaning;
  std::function<bool(Config&, std::string_view)> read;
  std::function<std::string(const Config&)> show;
};

std::span<const Setting> settings();

// A Config with the origin of each value: "default" or the name of the variable that set it.
struct ConfigWithOrigins {
  Config config;
  std::vector<std::string> origins;  // one for each of settings()
};

// The environment over the defaults; RUEDA_* wins over its alias. Throws InvalidArgument that names the
// variable, its value and what is legal.
ConfigWithOrigins read_config(const std::function<const char*(const std::string&)>& environment);
Config config_from_environment();

}  // namespace rueda
