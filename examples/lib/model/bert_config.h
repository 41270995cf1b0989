// SPDX-License-Identifier: Apache-2.0
// The sizes and settings of a BERT, read from and written to Hugging Face's config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rueda::examples {

// A plain value; the defaults are those of bert-base-uncased.
struct BertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  std::int64_t pad_token_id = 0;
  double layer_norm_eps = 1e-12;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double initializer_range = 0.02;

  friend bool operator==(const BertConfig&, const BertConfig&) = default;
};

// Throws std::runtime_error naming the file and the field: missing size, wrong type, value out of range, an
// activation other than gelu, another model_type, relative positions. A field that is missing and has a usual
// value takes that.
BertConfig read_bert_config(const std::filesystem::path& config_json);

// The same from JSON already read; `origin` is named in errors.
BertConfig parse_bert_config(const nlohmann::json& json, const std::string& origin);

// The config.json of Hugging Face. `architecture` is the class of the model; `dtype` the parameters' type:
// float32, bfloat16 or float64.
nlohmann::json to_json(const BertConfig& config, const std::string& architecture, const std::string& dtype);

}  // namespace rueda::examples
