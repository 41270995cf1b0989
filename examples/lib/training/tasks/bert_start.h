// SPDX-License-Identifier: Apache-2.0
// The start of a BERT: a checkpoint, or sizes to draw at random.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/lib/data/tokenizer/word_piece.h"
#include "examples/lib/model/bert_config.h"
#include "examples/lib/model/model_tensors.h"
#include "examples/lib/training/options/options.h"

namespace torch::nn {
class Module;
}

namespace rueda::examples {

class BertWithHead;
struct BertOptions;
struct LoadReport;

// Which BERT a run starts from.
struct StartOptions {
  std::optional<std::filesystem::path> model;  // a checkpoint folder; without: a small one at random
  std::filesystem::path vocabulary;            // of that one; empty: the sample's
  std::int64_t max_length = 128;               // tokens in a window
  std::optional<double> dropout;               // unset: as the model says
};

// Sizes, tokenizer and, if there are some, parameters. The tokenizer may be used by any thread.
struct BertStart {
  std::string origin;  // the folder, or empty
  BertConfig config;
  std::filesystem::path vocabulary;  // the file that the tokens are from
  WordPieceTokenizer tokenizer;
  std::vector<std::string> notes;          // for people: possible mistakes in the checkpoint's files
  std::optional<ModelTensors> parameters;  // absent: a random start
};

// The tokenizer is that of the checkpoint's folder, or of the vocabulary and its own (read_tokenizer()).
// Throws std::runtime_error or std::invalid_argument naming the file or the flag at fault.
BertStart read_bert_start(const StartOptions& options);
BertStart read_bert_start(const BertOptions& options);

// In which all ranks must agree, and a run that is resumed: the tokens, not where they were read.
std::string vocabulary_words(const WordPieceTokenizer& tokenizer);

// Before a model is made: seeds the random draws.
void seed_parameters(std::uint64_t seed);

// Gives a model that was just made its parameters, and then its type. Returns words on their origin. Throws
// the errors of load_parameters().
std::string fill_model(BertWithHead& model, const BertStart& start, ParameterType type);
// The parts of that; `report`: of loading, null for a random start.
std::string words_of(const torch::nn::Module& model, const BertStart& start, const LoadReport* report);
void convert(torch::nn::Module& model, ParameterType type);

}  // namespace rueda::examples
