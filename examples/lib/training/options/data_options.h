// SPDX-License-Identifier: Apache-2.0
// Flags on data that every program reading it has.
#pragma once

#include <boost/program_options.hpp>
#include <filesystem>
#include <string>

#include "examples/lib/data/files/bad_items.h"
#include "examples/lib/data/token_cache.h"
#include "examples/lib/training/options/flags.h"

namespace rueda::examples {

struct DataOptions {
  bool dummy = false;                                    // made up on the fly: no file is read
  OnBadItems on_bad = OnBadItems::refuse;                // questions or lines
  std::filesystem::path cache = default_cache_folder();  // of tokenized data; "none": not kept
  std::filesystem::path vocabulary;                      // without a checkpoint; empty: the sample's
};

// Their table, for a program to add to its own.
boost::program_options::options_description data_flags();

// Overwrites what was given. Throws UsageError, also for --data with --dummy, and for --vocabulary with a
// checkpoint, which has its own.
void read_data_flags(const Flags& flags, DataOptions& options);

// Says on standard output what takes time.
TokenCache cache_of(const DataOptions& options);

}  // namespace rueda::examples
