// SPDX-License-Identifier: Apache-2.0
// Writing a tokenizer's files.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "examples/lib/data/tokenizer/tokenizer_files.h"
#include "examples/lib/data/tokenizer/vocabulary_file.h"

namespace rueda::examples {
namespace {

using Json = nlohmann::ordered_json;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text << std::flush;
  if (!stream) throw std::runtime_error("cannot write " + path.string());
}

void write_json(const std::filesystem::path& path, const Json& json) {
  write_text(path, json.dump(2) + '\n');
}

bool has_added(const TokenizerSettings& settings, const std::string& content) {
  return std::ranges::find(settings.added, content, &AddedToken::content) != settings.added.end();
}

// Without a class of its own a tokenizer also finds named tokens in a text. So only added tokens are named.
Json names_of(const TokenizerSettings& settings) {
  Json names = Json::object();
  if (settings.begin_token) names["bos_token"] = *settings.begin_token;
  if (settings.end_token) names["eos_token"] = *settings.end_token;
  for (const SpecialTokenKey& key : kSpecialTokenKeys) {
    const std::string& name = settings.special.*key.name;
    if (settings.tokenizer_class == TokenizerClass::bert || has_added(settings, name))
      names[std::string(key.key)] = name;
  }
  return names;
}

Json config_of(const TokenizerSettings& settings, std::int64_t most_tokens) {
  const bool is_bert = settings.tokenizer_class == TokenizerClass::bert;
  Json config = {{"tokenizer_class", is_bert ? "BertTokenizer" : "PreTrainedTokenizerFast"}};
  if (is_bert) {
    const std::optional<bool>& strip = settings.normalizer.strip_accents;
    config["do_lower_case"] = settings.normalizer.lower_case;
    config["strip_accents"] = strip ? Json(*strip) : Json();
    config["tokenize_chinese_chars"] = settings.normalizer.separate_ideographs;
  }
  config["model_max_length"] = std::min(settings.max_length.value_or(most_tokens), most_tokens);
  config.update(names_of(settings));
  if (!settings.more_special.empty()) config["additional_special_tokens"] = settings.more_special;
  return config;
}

Json added_tokens_of(const TokenizerSettings& settings) {
  Json tokens = Json::array();
  for (const AddedToken& token : settings.added)
    tokens.push_back({{"id", token.id},
                      {"content", token.content},
                      {"single_word", token.single_word},
                      {"lstrip", token.lstrip},
                      {"rstrip", token.rstrip},
                      {"normalized", token.normalized},
                      {"special", token.special}});
  return tokens;
}

Json normalizer_of(const NormalizerSettings& settings) {
  return {{"type", "BertNormalizer"},
          {"clean_text", settings.clean_text},
          {"handle_chinese_chars", settings.separate_ideographs},
          {"strip_accents", settings.strip_accents ? Json(*settings.strip_accents) : Json()},
          {"lowercase", settings.lower_case}};
}

// [CLS] A [SEP], or [CLS] A [SEP] B [SEP].
Json post_processor_of(const WordPieceTokenizer& tokenizer) {
  const auto special = [](const std::string& name, int type) {
    return Json{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const std::string& begin = tokenizer.settings().special.classifier;
  const std::string& end = tokenizer.settings().special.separator;
  const Json single = {special(begin, 0), text("A", 0), special(end, 0)};
  Json pair = single;
  pair.push_back(text("B", 1));
  pair.push_back(special(end, 1));
  Json tokens = Json::object();
  for (const auto& [name, id] : {std::pair(begin, tokenizer.cls_id()), std::pair(end, tokenizer.sep_id())})
    tokens[name] = {{"id", name}, {"ids", Json::array({id})}, {"tokens", Json::array({name})}};
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

Json model_of(const TokenizerSettings& settings) {
  Json::object_t vocabulary;  // a vector of pairs, filled without looking for each token in it
  for (std::size_t id = 0; id < settings.vocabulary.size(); ++id)
    if (const std::optional<std::string>& token = settings.vocabulary[id])
      vocabulary.push_back({*token, Json(id)});
  return {{"type", "WordPiece"},
          {"unk_token", settings.special.unknown},
          {"continuing_subword_prefix", settings.continuation},
          {"max_input_chars_per_word", settings.most_characters_per_word},
          {"vocab", std::move(vocabulary)}};
}

}  // namespace

void write_tokenizer(const std::filesystem::path& folder, const WordPieceTokenizer& tokenizer,
                     std::int64_t most_tokens) {
  const TokenizerSettings& settings = tokenizer.settings();
  std::string lines;
  for (const std::string& line : vocabulary_lines(settings.vocabulary)) lines += line + '\n';
  write_text(folder / "vocab.txt", lines);
  write_json(folder / "tokenizer_config.json", config_of(settings, most_tokens));
  write_json(folder / "special_tokens_map.json", names_of(settings));
  const Json decoder = {{"type", "WordPiece"}, {"prefix", settings.continuation}, {"cleanup", true}};
  write_json(folder / "tokenizer.json", {{"version", "1.0"},
                                         {"truncation", Json()},
                                         {"padding", Json()},
                                         {"added_tokens", added_tokens_of(settings)},
                                         {"normalizer", normalizer_of(settings.normalizer)},
                                         {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                                         {"post_processor", post_processor_of(tokenizer)},
                                         {"decoder", decoder},
                                         {"model", model_of(settings)}});
}

}  // namespace rueda::examples
