// SPDX-License-Identifier: Apache-2.0
// The flags of distill.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/lib/model/distillation.h"
#include "examples/lib/training/options/data_options.h"
#include "examples/lib/training/options/options.h"

namespace rueda::examples {

enum class StudentStart : std::uint8_t { every_second_layer, random, checkpoint };

// All settings of one run of distill; the defaults are those of a given teacher.
struct DistillOptions : TrainOptions {
  std::filesystem::path data;
  DataOptions source;                            // the other sources of data, and the cache
  std::optional<std::filesystem::path> teacher;  // a checkpoint folder; without: one is trained first
  StudentStart student = StudentStart::every_second_layer;
  std::filesystem::path student_folder;  // of a checkpoint
  std::int64_t held_out = 64;            // windows kept for evaluation
  std::int64_t max_length = 128;
  std::int64_t teacher_steps = 200;  // of that training
  DistillationOptions losses;
};

// Nothing if --help was asked for. Throws UsageError.
std::optional<DistillOptions> parse_distill_options(int argument_count, const char* const* arguments);

std::string distill_help_text();

// Those of its own in which all ranks must be alike, a line each.
std::vector<std::string> distill_settings(const DistillOptions& options);

}  // namespace rueda::examples
