// SPDX-License-Identifier: Apache-2.0
// Flags on data that every program reading it has.
#pragma once

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

// Adds their rows.
void add_data_flags(Flags& flags, DataOptions& options);

// Throws UsageError for flags that do not go together: --data with --dummy, and --vocabulary with a
// checkpoint, which has its own.
void check_data_flags(const Flags& flags, const DataOptions& options);

// The cache prints a line on standard output before each slow action.
TokenCache cache_of(const DataOptions& options);

}  // namespace rueda::examples
