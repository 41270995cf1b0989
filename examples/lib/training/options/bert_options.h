// SPDX-License-Identifier: Apache-2.0
// The flags of train_bert.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "examples/lib/training/options/data_options.h"
#include "examples/lib/training/options/options.h"

namespace rueda::examples {

// All settings of one run of train_bert; the defaults are those of fine-tuning a given model.
struct BertOptions : TrainOptions {
  std::filesystem::path data;
  DataOptions source;                          // the other sources of data, and the cache
  std::optional<std::filesystem::path> model;  // a checkpoint folder; without: a small random BERT
  std::int64_t held_out = 8;                   // the amount kept for evaluation
  std::int64_t max_length = 256;
  std::int64_t stride = 64;
  double unknown_share = 0.02;                 // of nq's windows without answer, how many are trained on
  double question_dropout = 0.05;              // of the words of nq's questions
  bool augment = true;                         // nq's windows, as they are trained on
  std::optional<double> null_score_threshold;  // of squad v2.0
  std::filesystem::path predictions;           // of squad; empty: not written
};

// Nothing if --help was asked for. Throws UsageError.
std::optional<BertOptions> parse_bert_options(int argument_count, const char* const* arguments);

std::string bert_help_text();

}  // namespace rueda::examples
