// SPDX-License-Identifier: Apache-2.0
// The flags of evaluate_lm: those of the trainers that an evaluation has a use for, and its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "examples/lib/training/options/data_options.h"
#include "examples/lib/training/options/options.h"

namespace rueda::examples {

struct EvaluateLmOptions {
  std::filesystem::path data;
  DataOptions source;                          // the other sources of data, and the cache
  std::optional<std::filesystem::path> model;  // a checkpoint folder; without: a small random BERT
  double subset = 1;                           // share of the windows
  std::int64_t max_length = 128;               // tokens in a window
  std::int64_t batch = 16;                     // rows in a forward pass
  std::uint64_t seed = 1;                      // of the masks and the subset
  bool pseudo = true;
  ParameterType dtype = ParameterType::float32;
  Autocast autocast = Autocast::none;
  DeviceChoice device;
  std::filesystem::path summary;
  std::filesystem::path dump_batches;  // empty: not written
};

// Nothing if --help was asked for. Throws UsageError.
std::optional<EvaluateLmOptions> parse_evaluate_lm_options(int argument_count, const char* const* arguments);

std::string evaluate_lm_help_text();

}  // namespace rueda::examples
