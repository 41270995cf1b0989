// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/bert_config.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "examples/lib/data/files/json_file.h"

namespace rueda::examples {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;

// Reads the fields of one config.json, naming the file and the field in every error.
class Fields {
 public:
  Fields(const nlohmann::json& json, const std::string& origin) : json_(json), origin_(origin) {
    if (!json.is_object()) fail(fmt::format("expected an object of settings, found {}", json.type_name()));
  }

  // Without `fallback` the field must be there.
  std::int64_t integer(const char* name, std::int64_t least,
                       std::optional<std::int64_t> fallback = {}) const {
    const nlohmann::json* value = find(name, fallback.has_value());
    if (value == nullptr) return *fallback;
    if (!value->is_number_integer()) fail(fmt::format("{} must be an integer, is {}", name, shown(*value)));
    const auto number = value->get<std::int64_t>();
    if (number < least || number > std::numeric_limits<std::int32_t>::max()) {
      fail(fmt::format("{} is {}; it must be at least {} and fit 32 bits", name, value->dump(), least));
    }
    return number;
  }

  // A number in [0, limit).
  double number(const char* name, double limit, double fallback) const {
    const nlohmann::json* value = find(name, true);
    if (value == nullptr) return fallback;
    if (!value->is_number()) fail(fmt::format("{} must be a number, is {}", name, shown(*value)));
    const auto number = value->get<double>();
    if (!(number >= 0 && number < limit)) {
      fail(fmt::format("{} is {}; it must be at least 0 and below {}", name, value->dump(), limit));
    }
    return number;
  }

  void only(const char* name, const nlohmann::json& supported) const {
    const nlohmann::json* value = find(name, true);
    if (value == nullptr || *value == supported) return;
    fail(fmt::format("{} is {}; only {} is supported", name, shown(*value), supported.dump()));
  }

  [[noreturn]] void fail(const std::string& words) const { throw std::runtime_error(origin_ + ": " + words); }

 private:
  static std::string shown(const nlohmann::json& value) {
    return value.is_structured() ? fmt::format("an {}", value.type_name()) : value.dump();
  }

  const nlohmann::json* find(const char* name, bool optional) const {
    const auto found = json_.find(name);
    if (found != json_.end() && !found->is_null()) return &*found;
    if (!optional) fail(fmt::format("the setting {} is missing", name));
    return nullptr;
  }

  const nlohmann::json& json_;
  const std::string& origin_;
};

}  // namespace

BertConfig parse_bert_config(const nlohmann::json& json, const std::string& origin) {
  const Fields fields(json, origin);
  fields.only("model_type", "bert");
  fields.only("hidden_act", "gelu");
  fields.only("position_embedding_type", "absolute");
  fields.only("is_decoder", false);
  fields.only("add_cross_attention", false);
  BertConfig config;
  config.vocab_size = fields.integer("vocab_size", 1);
  config.hidden_size = fields.integer("hidden_size", 1);
  config.num_hidden_layers = fields.integer("num_hidden_layers", 1);
  config.num_attention_heads = fields.integer("num_attention_heads", 1);
  config.intermediate_size = fields.integer("intermediate_size", 1);
  config.max_position_embeddings = fields.integer("max_position_embeddings", 1);
  config.type_vocab_size = fields.integer("type_vocab_size", 2, 2);
  config.pad_token_id = fields.integer("pad_token_id", 0, 0);
  config.layer_norm_eps = fields.number("layer_norm_eps", 1, config.layer_norm_eps);
  config.hidden_dropout_prob = fields.number("hidden_dropout_prob", 1, config.hidden_dropout_prob);
  config.attention_probs_dropout_prob =
      fields.number("attention_probs_dropout_prob", 1, config.attention_probs_dropout_prob);
  config.initializer_range = fields.number("initializer_range", 10, config.initializer_range);
  if (config.hidden_size % config.num_attention_heads != 0) {
    fields.fail(fmt::format("hidden_size {} is not a multiple of num_attention_heads {}", config.hidden_size,
                            config.num_attention_heads));
  }
  if (config.pad_token_id >= config.vocab_size) {
    fields.fail(fmt::format("pad_token_id {} is outside the vocabulary of {}", config.pad_token_id,
                            config.vocab_size));
  }
  return config;
}

BertConfig read_bert_config(const std::filesystem::path& config_json) {
  return parse_bert_config(read_json(config_json, kMostConfigBytes), config_json.string());
}

nlohmann::json to_json(const BertConfig& config, const std::string& architecture, const std::string& dtype) {
  return {{"architectures", {architecture}},
          {"model_type", "bert"},
          {"dtype", dtype},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.num_hidden_layers},
          {"num_attention_heads", config.num_attention_heads},
          {"intermediate_size", config.intermediate_size},
          {"max_position_embeddings", config.max_position_embeddings},
          {"type_vocab_size", config.type_vocab_size},
          {"pad_token_id", config.pad_token_id},
          {"layer_norm_eps", config.layer_norm_eps},
          {"hidden_act", "gelu"},
          {"hidden_dropout_prob", config.hidden_dropout_prob},
          {"attention_probs_dropout_prob", config.attention_probs_dropout_prob},
          {"initializer_range", config.initializer_range},
          {"position_embedding_type", "absolute"},
          {"tie_word_embeddings", true}};
}

}  // namespace rueda::examples
