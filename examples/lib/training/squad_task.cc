// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/squad_task.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "examples/lib/data/json_file.h"
#include "examples/lib/data/sample_file.h"
#include "examples/lib/data/word_piece.h"

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

// What tokenizer_config.json says, if the folder has one; BERT's own default is to lower-case.
bool reads_lower_case(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(path)) return true;
  const nlohmann::json json = read_json(path);
  const auto setting = json.is_object() ? json.find("do_lower_case") : json.end();
  if (setting == json.end() || setting->is_null()) return true;
  if (!setting->is_boolean()) {
    throw std::runtime_error(
        fmt::format("{}: do_lower_case must be true or false, is {}", path.string(), setting->dump()));
  }
  return setting->get<bool>();
}

}  // namespace

SquadTask load_squad_task(const TrainOptions& options) {
  SquadTask task;
  if (options.model) {
    task.config = read_bert_config(*options.model / "config.json");
    task.vocabulary = *options.model / "vocab.txt";
    task.lower_case = reads_lower_case(*options.model);
    task.parameters_file = *options.model / "model.safetensors";
    task.parameters = SafetensorsFile::open(*task.parameters_file);
  } else {
    task.config = small_config();
    task.vocabulary = sample_file("vocab.txt");
  }
  const auto tokenizer = WordPieceTokenizer::from_file(task.vocabulary, task.lower_case);
  const auto words = static_cast<std::int64_t>(tokenizer.vocab_size());
  if (!options.model) task.config.vocab_size = words;
  if (words > task.config.vocab_size) {
    throw std::runtime_error(fmt::format("{} has {} tokens, but config.json says vocab_size {}",
                                         task.vocabulary.string(), words, task.config.vocab_size));
  }
  if (options.max_length > task.config.max_position_embeddings) {
    throw std::invalid_argument(fmt::format("--max-length is {}, but the model has {} positions",
                                            options.max_length, task.config.max_position_embeddings));
  }
  task.config.pad_token_id = tokenizer.pad_id();
  if (options.dropout) {
    task.config.hidden_dropout_prob = *options.dropout;
    task.config.attention_probs_dropout_prob = *options.dropout;
  }
  std::tie(task.training, task.held_out) =
      split_by_article(read_squad(options.data), static_cast<std::size_t>(options.held_out));
  const auto windows = [&](const SquadData& data) {
    return make_features(data, tokenizer, static_cast<std::int32_t>(options.max_length),
                         static_cast<std::int32_t>(options.stride));
  };
  task.training_windows = windows(task.training);
  task.held_out_windows = windows(task.held_out);
  return task;
}

}  // namespace rueda::examples
