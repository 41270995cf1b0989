// SPDX-License-Identifier: Apache-2.0
// config.json: what is read, what is refused and with which words; and the flags of train_bert.
#include "examples/02_bert/bert_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "examples/02_bert/options.h"

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
  const nlohmann::json json = to_json(config, "bfloat16");
  EXPECT_EQ(parse_bert_config(json, "config.json"), config);
  EXPECT_EQ(json["architectures"], nlohmann::json({"BertForQuestionAnswering"}));
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

std::optional<TrainOptions> parsed(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "train_bert");
  return parse_options(static_cast<int>(flags.size()), flags.data());
}

std::string usage_error(const std::vector<const char*>& flags) {
  try {
    parsed(flags);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Options, DefaultsOfTheMainJob) {
  const TrainOptions options = *parsed({"--data", "d.json", "--model", "m"});
  EXPECT_EQ(options.steps, 400);
  EXPECT_EQ(options.batch, 4);
  EXPECT_EQ(options.held_out, 8);
  EXPECT_EQ(options.max_length, 256);
  EXPECT_EQ(options.learning_rate, 1e-4);
  EXPECT_EQ(options.warmup, 30);
  EXPECT_EQ(options.clip, 1.0);
  EXPECT_EQ(options.summary, "runs/squad/summary.json");
}

TEST(Options, FlagsAreRead) {
  const TrainOptions options = *parsed({"--steps=0", "--batch", "3", "--dtype", "float64", "--sync", "never",
                                        "--overlap", "off", "--dropout", "0", "--output", "out",
                                        "--optimizer", "sgd", "--eval-first", "no", "--save", "no"});
  EXPECT_EQ(options.steps, 0);
  EXPECT_EQ(options.batch, 3);
  EXPECT_EQ(options.dtype, ParameterType::float64);
  EXPECT_FALSE(options.synchronize());
  EXPECT_EQ(options.overlap, false);
  EXPECT_EQ(options.dropout, 0.0);
  EXPECT_EQ(options.optimizer, OptimizerKind::sgd);
  EXPECT_EQ(options.tensorboard, "out/tensorboard");
  EXPECT_FALSE(options.evaluate_first);
  EXPECT_FALSE(options.save);
  EXPECT_EQ(parsed({"--help"}), std::nullopt);
  EXPECT_THAT(help_text(), HasSubstr("--backward-passes-per-step"));
}

TEST(Options, UsageErrorsSayWhatWouldBeRight) {
  EXPECT_THAT(usage_error({"--nonsense"}), HasSubstr("--nonsense"));
  EXPECT_THAT(usage_error({"--step", "3"}), HasSubstr("--step"));
  EXPECT_THAT(usage_error({"-x"}), HasSubstr("-x"));
  EXPECT_THAT(usage_error({"stray"}), HasSubstr("stray"));
  EXPECT_EQ(usage_error({"--dtype", "int8"}), "--dtype is 'int8'; it must be float32 or bfloat16 or float64");
  EXPECT_THAT(usage_error({"--steps", "many"}), AllOf(HasSubstr("many"), HasSubstr("--steps")));
  EXPECT_THAT(usage_error({"--batch", "0"}), AllOf(HasSubstr("--batch is 0"), HasSubstr("at least 1")));
  EXPECT_THAT(usage_error({"--batch", "-4"}), HasSubstr("--batch"));
  EXPECT_THAT(usage_error({"--dropout", "1"}), HasSubstr("below 1"));
  EXPECT_THAT(usage_error({"--learning-rate", "nan"}), HasSubstr("--learning-rate"));
  EXPECT_THAT(usage_error({"--steps"}), HasSubstr("--steps"));
  EXPECT_THAT(usage_error({"--task", "nq"}), AllOf(HasSubstr("nq"), HasSubstr("squad")));
}

TEST(Schedule, RisesThenFallsToZero) {
  TrainOptions options;
  options.learning_rate = 1;
  options.steps = 110;
  options.warmup = 10;
  EXPECT_DOUBLE_EQ(learning_rate_at(0, options), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(9, options), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(10, options), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(60, options), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(109, options), 0.01);
  options.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(0, options), 1.0);
  options.warmup = 200;
  EXPECT_DOUBLE_EQ(learning_rate_at(99, options), 0.5);
}

}  // namespace
}  // namespace rueda::examples
