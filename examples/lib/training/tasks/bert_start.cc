// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/tasks/bert_start.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <utility>

#include "examples/lib/data/files/sample_file.h"
#include "examples/lib/data/token_cache.h"
#include "examples/lib/data/tokenizer/tokenizer_files.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/training/options/bert_options.h"

namespace rueda::examples {
namespace {

// Learns the sample in under two minutes on two cores. Without dropout: a model this small has nothing to
// spare.
BertConfig small_config() {
  BertConfig config;
  config.hidden_size = 128;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 512;
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
  return config;
}

ReadTokenizer tokenizer_of(const StartOptions& options) {
  if (options.model) return read_tokenizer(*options.model);
  return read_tokenizer(options.vocabulary.empty() ? sample_file("vocab.txt") : options.vocabulary);
}

}  // namespace

BertStart read_bert_start(const StartOptions& options) {
  const std::optional<std::filesystem::path>& model = options.model;
  const BertConfig config = model ? read_bert_config(*model / "config.json") : small_config();
  ReadTokenizer read = tokenizer_of(options);
  BertStart start{.origin = model ? model->string() : "",
                  .config = config,
                  .vocabulary = std::move(read.vocabulary),
                  .tokenizer = std::move(read.tokenizer),
                  .notes = std::move(read.notes)};
  if (model) start.parameters = ModelTensors::open(*model);
  const auto words = static_cast<std::int64_t>(start.tokenizer.vocab_size());
  if (!model) start.config.vocab_size = words;
  if (words > start.config.vocab_size) {
    throw std::runtime_error(fmt::format("{} has {} tokens, but config.json says vocab_size {}",
                                         start.vocabulary.string(), words, start.config.vocab_size));
  }
  if (options.max_length > start.config.max_position_embeddings) {
    throw std::invalid_argument(fmt::format("--max-length is {}, but the model has {} positions",
                                            options.max_length, start.config.max_position_embeddings));
  }
  const std::optional<std::int64_t>& limit = start.tokenizer.settings().max_length;
  if (limit && options.max_length > *limit)
    start.notes.push_back(fmt::format("--max-length is {}, but the tokenizer's model_max_length is {}",
                                      options.max_length, *limit));
  start.config.pad_token_id = start.tokenizer.pad_id();
  if (options.dropout) {
    start.config.hidden_dropout_prob = *options.dropout;
    start.config.attention_probs_dropout_prob = *options.dropout;
  }
  return start;
}

BertStart read_bert_start(const BertOptions& options) {
  return read_bert_start(StartOptions{.model = options.model,
                                      .vocabulary = options.source.vocabulary,
                                      .max_length = options.max_length,
                                      .dropout = options.dropout});
}

std::string vocabulary_words(const WordPieceTokenizer& tokenizer) {
  return fmt::format("a vocabulary of {} tokens, {:016x}", tokenizer.vocab_size(), hash_of(tokenizer));
}

void seed_parameters(std::uint64_t seed) { at::manual_seed(seed); }

std::string fill_model(BertWithHead& model, const BertStart& start, ParameterType type) {
  std::optional<LoadReport> report;
  if (start.parameters) report = load_parameters(model, *start.parameters);
  std::string words = words_of(model, start, report ? &*report : nullptr);
  convert(model, type);
  return words;
}

std::string words_of(const torch::nn::Module& model, const BertStart& start, const LoadReport* report) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  std::string words = fmt::format("BERT of {} layers, {:.1f} million parameters",
                                  start.config.num_hidden_layers, static_cast<double>(count) / 1e6);
  words += report == nullptr ? ", at random" : " from " + start.origin;
  for (const std::string& note : start.notes) words += '\n' + note;
  if (report == nullptr) return words;
  if (!report->fresh.empty()) words += fmt::format("\nnew, at random: {}", fmt::join(report->fresh, ", "));
  if (!report->unused.empty())
    words += fmt::format("\nin the file but not used: {}", fmt::join(report->unused, ", "));
  return words;
}

void convert(torch::nn::Module& model, ParameterType type) {
  switch (type) {
    case ParameterType::float32: return model.to(at::kFloat);
    case ParameterType::bfloat16: return model.to(at::kBFloat16);
    case ParameterType::float64: return model.to(at::kDouble);
  }
}

}  // namespace rueda::examples
