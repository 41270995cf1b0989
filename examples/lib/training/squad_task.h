// SPDX-License-Identifier: Apache-2.0
// Everything that a run reads, checked and made ready before the ranks meet.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "examples/lib/data/features.h"
#include "examples/lib/data/squad.h"
#include "examples/lib/model/bert_config.h"
#include "examples/lib/model/safetensors.h"
#include "examples/lib/training/options.h"

namespace rueda::examples {

struct SquadTask {
  SquadData training;
  SquadData held_out;
  std::vector<Feature> training_windows;
  std::vector<Feature> held_out_windows;
  BertConfig config;
  std::filesystem::path vocabulary;
  bool lower_case = true;
  std::optional<std::filesystem::path> parameters_file;
  std::optional<SafetensorsFile> parameters;  // absent: a random start
};

// Throws std::runtime_error or std::invalid_argument naming the file or the flag at fault.
SquadTask load_squad_task(const TrainOptions& options);

}  // namespace rueda::examples
