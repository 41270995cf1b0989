// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/tokenizer/vocabulary_file.h"

namespace rueda::examples {
namespace {

// A word costs its length times that of the longest token.
constexpr std::size_t kMostCharacters = 10'000;

constexpr const char* kRemedy = "choose the checkpoint of a BERT, or save its tokenizer as a BertTokenizer";

std::string type_of(const JsonNode& node) { return node.member("type").text(); }

[[noreturn]] void refuse(const JsonNode& node, const std::string& found, const char* wanted) {
  node.fail(fmt::format("{} is not supported, {} alone is; {}", found, wanted, kRemedy));
}

// The model's vocabulary: its keys are tokens and its values are their ids.
std::vector<std::optional<std::string>> read_tokens(const JsonNode& vocabulary) {
  const nlohmann::json& tokens = vocabulary.value();
  if (!tokens.is_object()) vocabulary.fail("an object of tokens and their ids is needed");
  std::vector<std::optional<std::string>> read;
  for (const auto& [token, id] : tokens.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostTokens)
      vocabulary.fail(fmt::format("the id of token \"{}\" must be a number from 0 below {}, is {}", token,
                                  kMostTokens, id.is_structured() ? id.type_name() : id.dump()));
    const auto index = id.get<std::size_t>();
    if (index >= read.size()) read.resize(index + 1);
    if (read[index])
      vocabulary.fail(
          fmt::format("the tokens \"{}\" and \"{}\" have one id, {}", *read[index], token, index));
    read[index] = token;
  }
  return read;
}

void read_model(const JsonNode& model, TokenizerJson& read) {
  // Files of older versions do not name the type; WordPiece has these settings, and no other has both.
  const bool named = model.find("type").has_value();
  const bool looks_like_it =
      model.find("continuing_subword_prefix") && model.find("max_input_chars_per_word");
  if (named && type_of(model) != "WordPiece")
    refuse(model, fmt::format("the model {}", type_of(model)), "WordPiece");
  if (!named && !looks_like_it) refuse(model, "a model without a type", "WordPiece");
  read.vocabulary = read_tokens(model.member("vocab"));
  read.unknown = model.member("unk_token").text();
  read.continuation = model.member("continuing_subword_prefix").text();
  const JsonNode most = model.member("max_input_chars_per_word");
  read.most_characters_per_word = most.position();
  if (read.most_characters_per_word > kMostCharacters)
    most.fail(fmt::format("{} is more than {}; write a smaller number", most.shown(), kMostCharacters));
}

NormalizerSettings read_bert_normalizer(const JsonNode& node) {
  NormalizerSettings read;
  read.clean_text = node.member("clean_text").boolean();
  read.separate_ideographs = node.member("handle_chinese_chars").boolean();
  if (const auto strip = node.find("strip_accents")) read.strip_accents = strip->boolean();
  read.lower_case = node.member("lowercase").boolean();
  return read;
}

void read_normalizer(const JsonNode& tokenizer, TokenizerJson& read) {
  const std::optional<JsonNode> node = tokenizer.find("normalizer");
  if (!node) {
    read.normalizer = {
        .clean_text = false, .separate_ideographs = false, .strip_accents = false, .lower_case = false};
    return;
  }
  std::optional<JsonNode> bert = node;
  if (type_of(*node) == "Sequence") {
    const JsonNode steps = node->member("normalizers");
    if (steps.size() != 1) refuse(steps, fmt::format("a sequence of {} steps", steps.size()), "one of one");
    bert = steps.at(0);
  }
  if (type_of(*bert) != "BertNormalizer")
    refuse(*bert, fmt::format("the normalizer {}", type_of(*bert)), "BertNormalizer");
  read.has_bert_normalizer = type_of(*node) == "BertNormalizer";
  read.normalizer = read_bert_normalizer(*bert);
}

void check_pre_tokenizer(const JsonNode& tokenizer) {
  const std::optional<JsonNode> node = tokenizer.find("pre_tokenizer");
  const std::string type = node ? type_of(*node) : "none";
  if (type != "BertPreTokenizer")
    refuse(node.value_or(tokenizer), fmt::format("the pre_tokenizer {}", type), "BertPreTokenizer");
}

// "NAME:TYPE" of each step of a template.
std::string template_words(const JsonNode& steps) {
  std::string words;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto special = steps.at(i).find("SpecialToken");
    const JsonNode step = special ? *special : steps.at(i).member("Sequence");
    words += fmt::format("{}{}{}:{}", words.empty() ? "" : " ", special ? "" : "$", step.member("id").text(),
                         step.member("type_id").position());
  }
  return words;
}

FrameToken read_frame_token(const JsonNode& tokens, const std::string& name) {
  const JsonNode ids = tokens.member(name).member("ids");
  if (ids.size() != 1) ids.fail(fmt::format("one id is needed, found {}", ids.size()));
  return {.name = name, .id = read_token_id(ids.at(0))};
}

void read_template(const JsonNode& node, TokenizerJson& read) {
  const JsonNode single = node.member("single");
  const JsonNode pair = node.member("pair");
  constexpr std::size_t kSteps = 3;
  const bool framed = single.size() == kSteps && single.at(0).find("SpecialToken") &&
                      single.at(kSteps - 1).find("SpecialToken");
  const std::string words = template_words(single);
  if (!framed) refuse(single, fmt::format("the template \"{}\"", words), "\"[CLS]:0 $A:0 [SEP]:0\"");
  const std::string first = single.at(0).member("SpecialToken").member("id").text();
  const std::string last = single.at(kSteps - 1).member("SpecialToken").member("id").text();
  const std::string wanted = fmt::format("{}:0 $A:0 {}:0", first, last);
  if (words != wanted) refuse(single, fmt::format("the template \"{}\"", words), "\"[CLS]:0 $A:0 [SEP]:0\"");
  if (template_words(pair) != fmt::format("{} $B:1 {}:1", wanted, last))
    refuse(pair, fmt::format("the template \"{}\"", template_words(pair)),
           "\"[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1\"");
  read.classifier = read_frame_token(node.member("special_tokens"), first);
  read.separator = read_frame_token(node.member("special_tokens"), last);
}

void read_post_processor(const JsonNode& tokenizer, TokenizerJson& read) {
  const std::optional<JsonNode> node = tokenizer.find("post_processor");
  const std::string type = node ? type_of(*node) : "none";
  if (type == "TemplateProcessing") return read_template(*node, read);
  if (type != "BertProcessing")
    refuse(node.value_or(tokenizer), fmt::format("the post_processor {}", type),
           "TemplateProcessing or BertProcessing");
  const auto pair = [&](const char* key) {
    const JsonNode list = node->member(key);
    if (list.size() != 2)
      list.fail(fmt::format("a token and its id are needed, found {} values", list.size()));
    return FrameToken{.name = list.at(0).text(), .id = read_token_id(list.at(1))};
  };
  read.classifier = pair("cls");
  read.separator = pair("sep");
}

void read_added_tokens(const JsonNode& tokenizer, TokenizerJson& read) {
  const std::optional<JsonNode> tokens = tokenizer.find("added_tokens");
  for (std::size_t i = 0; tokens && i < tokens->size(); ++i)
    read.added.push_back(read_added_token(tokens->at(i), read_token_id(tokens->at(i).member("id"))));
  std::ranges::stable_sort(read.added, {}, &AddedToken::id);
}

// Padding and truncation are asked for with each text; the decoder makes text of tokens, which Rueda never
// does.
void check_parts(const JsonNode& tokenizer) {
  static const std::set<std::string> kKnown = {"version",        "truncation", "padding",
                                               "added_tokens",   "normalizer", "pre_tokenizer",
                                               "post_processor", "decoder",    "model"};
  for (const auto& [key, value] : tokenizer.value().items())
    if (!kKnown.contains(key)) tokenizer.fail(fmt::format("the part \"{}\" is not known; {}", key, kRemedy));
  const std::optional<JsonNode> padding = tokenizer.find("padding");
  const std::optional<JsonNode> side = padding ? padding->find("direction") : std::nullopt;
  if (side && side->text() != "Right" && side->text() != "right")
    side->fail(fmt::format("padding on the {} is not supported; write \"Right\"", side->shown()));
}

}  // namespace

TokenizerJson read_tokenizer_json(const std::filesystem::path& file) {
  const std::string name = file.string();
  const nlohmann::json document = read_json(file, kMostTokenizerBytes);
  const JsonNode tokenizer(name, document);
  TokenizerJson read;
  read_model(tokenizer.member("model"), read);
  check_parts(tokenizer);
  read_normalizer(tokenizer, read);
  check_pre_tokenizer(tokenizer);
  read_post_processor(tokenizer, read);
  read_added_tokens(tokenizer, read);
  return read;
}

AddedToken read_added_token(const JsonNode& token, std::int32_t id) {
  const auto flag = [&](const char* key, bool fallback) {
    const std::optional<JsonNode> node = token.find(key);
    return node ? node->boolean() : fallback;
  };
  AddedToken read{.content = token.member("content").text(), .id = id};
  if (read.content.empty()) token.fail("a token without text cannot be found; take it out");
  read.single_word = flag("single_word", false);
  read.lstrip = flag("lstrip", false);
  read.rstrip = flag("rstrip", false);
  read.special = flag("special", false);
  read.normalized = flag("normalized", !read.special);
  return read;
}

std::int32_t read_token_id(const JsonNode& node) {
  if (node.position() >= kMostTokens)
    node.fail(fmt::format("the id {} is not below {}", node.shown(), kMostTokens));
  return static_cast<std::int32_t>(node.position());
}

}  // namespace rueda::examples
