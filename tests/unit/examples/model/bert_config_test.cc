// SPDX-License-Identifier: Apache-2.0
// config.json: what is read, what is refused and with which words.
#include "examples/lib/model/bert_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace rueda::examples {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

nlohmann::json valid() {
  return {{"model_type", "bert"},          {"vocab_size", 100},        {"hidden_size", 12},
          {"num_hidden_layers", 2},        {"num_attention_heads", 3}, {"intermediate_size", 24},
          {"max_position_embeddings", 64}, {"hidden_act", "gelu"}};
}

std::string error_of(const nlohmann::json& json) {
  try {
    parse_bert_config(json, "folder/config.json");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_with(const char* field, const nlohmann::json& value) {
  nlohmann::json json = valid();
  json[field] = value;
  return error_of(json);
}

TEST(BertConfig, ReadsFieldsAndUsualValues) {
  const BertConfig config = parse_bert_config(valid(), "config.json");
  EXPECT_EQ(config.vocab_size, 100);
  EXPECT_EQ(config.num_attention_heads, 3);
  EXPECT_EQ(config.type_vocab_size, 2);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_EQ(config.hidden_dropout_prob, 0.1);
}

TEST(BertConfig, WhatIsWrittenReadsBackEqual) {
  BertConfig config;
  config.vocab_size = 99;
  config.hidden_dropout_prob = 0.25;
  config.layer_norm_eps = 1e-7;
  config.pad_token_id = 3;
  const nlohmann::json json = to_json(config, "BertForMaskedLM", "bfloat16");
  EXPECT_EQ(parse_bert_config(json, "config.json"), config);
  EXPECT_EQ(json["architectures"], nlohmann::json({"BertForMaskedLM"}));
  EXPECT_EQ(json["dtype"], "bfloat16");
}

TEST(BertConfig, ErrorsNameFileFieldAndValue) {
  nlohmann::json missing = valid();
  missing.erase("hidden_size");
  EXPECT_EQ(error_of(missing), "folder/config.json: the setting hidden_size is missing");
  EXPECT_THAT(error_with("hidden_size", "big"), AllOf(HasSubstr("hidden_size"), HasSubstr("\"big\"")));
  EXPECT_THAT(error_with("vocab_size", 0), AllOf(HasSubstr("vocab_size"), HasSubstr("0")));
  EXPECT_THAT(error_with("vocab_size", 1.5), HasSubstr("must be an integer"));
  EXPECT_THAT(error_with("vocab_size", 18446744073709551615u), HasSubstr("vocab_size"));
  EXPECT_THAT(error_with("num_attention_heads", 5), AllOf(HasSubstr("12"), HasSubstr("5")));
  EXPECT_THAT(error_with("hidden_act", "relu"), AllOf(HasSubstr("\"relu\""), HasSubstr("gelu")));
  EXPECT_THAT(error_with("model_type", "roberta"), HasSubstr("roberta"));
  EXPECT_THAT(error_with("hidden_dropout_prob", 1), HasSubstr("below 1"));
  EXPECT_THAT(error_with("pad_token_id", 100), HasSubstr("vocabulary of 100"));
  EXPECT_THAT(error_of(nlohmann::json::array()), HasSubstr("array"));
}

TEST(BertConfig, ADecoderIsRefused) {
  for (const char* field : {"is_decoder", "add_cross_attention"}) {
    EXPECT_EQ(error_with(field, true),
              std::string("folder/config.json: ") + field + " is true; only false is supported");
    EXPECT_EQ(error_with(field, false), "no error");
    EXPECT_EQ(error_with(field, nullptr), "no error");
  }
}

}  // namespace
}  // namespace rueda::examples
