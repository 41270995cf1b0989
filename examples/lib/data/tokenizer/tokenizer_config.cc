// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/tokenizer/tokenizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>

#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/files/json_node.h"
#include "examples/lib/data/tokenizer/tokenizer_json.h"
#include "examples/lib/data/tokenizer/vocabulary_file.h"
#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {
namespace {

using nlohmann::json;

// Null unless it is one that every BERT has.
const SpecialTokenKey* find_needed(std::string_view key) {
  const auto* found = std::ranges::find(kSpecialTokenKeys, key, &SpecialTokenKey::key);
  return found == kSpecialTokenKeys.end() ? nullptr : found;
}

bool is_known_name(std::string_view key) {
  return key == "bos_token" || key == "eos_token" || find_needed(key) != nullptr;
}

bool is_list_of_more(std::string_view key) {
  return key == "additional_special_tokens" || key == "extra_special_tokens";
}

bool has(std::span<const AddedToken> tokens, const std::string& content) {
  return std::ranges::find(tokens, content, &AddedToken::content) != tokens.end();
}

// Settings that change no token in Rueda: of padding and truncation, which Rueda does itself, of text made of
// tokens, of chats, and of the origin of files.
const std::set<std::string>& harmless_settings() {
  static const std::set<std::string> kSettings = {"name_or_path",
                                                  "special_tokens_map_file",
                                                  "processor_class",
                                                  "clean_up_tokenization_spaces",
                                                  "truncation_side",
                                                  "truncation",
                                                  "truncation_strategy",
                                                  "padding",
                                                  "max_length",
                                                  "stride",
                                                  "pad_to_multiple_of",
                                                  "add_prefix_space",
                                                  "chat_template",
                                                  "chat_control_tokens",
                                                  "response_template",
                                                  "backend",
                                                  "is_local",
                                                  "local_files_only",
                                                  "device_map",
                                                  "use_fast",
                                                  "trust_remote_code",
                                                  "transformers_version",
                                                  "verbose",
                                                  "_commit_hash"};
  return kSettings;
}

// Settings that may have one value alone, or be null, each with Rueda's fixed behaviour in words.
const std::map<std::string, std::pair<json, const char*>>& fixed_settings() {
  static const std::map<std::string, std::pair<json, const char*>> kSettings = {
      {"do_basic_tokenize", {true, "words are always split at white space and punctuation"}},
      {"clean_text", {true, "text is always cleaned"}},
      {"wordpieces_prefix", {"##", "the prefix is that of the vocabulary"}},
      {"split_special_tokens", {false, "special tokens in a text are never split"}},
      {"padding_side", {"right", "texts are padded on the right"}},
      {"pad_token_type_id", {0, "padding has the type 0"}},
      {"add_bos_token", {false, "a text begins with cls_token"}},
      {"add_eos_token", {false, "a text ends with sep_token"}},
      {"from_slow", {false, "files are read as they are"}},
      {"init_inputs", {json::array(), "settings without names are not known"}},
      {"tokenizer_file", {nullptr, "the tokenizer is read from its own folder"}},
      {"vocab_file", {nullptr, "the vocabulary is read from its own folder"}},
      {"fast_tokenizer_files", {nullptr, "tokenizer.json is the one file that is read"}},
      {"auto_map", {nullptr, "a checkpoint's own code is not run"}}};
  return kSettings;
}

// A special token: its text, or its text and flags.
AddedToken read_special_token(const JsonNode& node) {
  AddedToken token{.content = node.value().is_object() ? "" : node.text()};
  if (node.value().is_object()) {
    token = read_added_token(node, 0);
    if (!node.find("normalized")) token.normalized = false;
    token.special = true;
  }
  if (token.content.empty()) node.fail("a special token without text cannot be found; name another");
  return token;
}

void read_more_special(const JsonNode& node, TokenizerConfig& config) {
  if (node.value().is_object()) {
    if (node.value().empty()) return;
    node.fail("tokens by names of their own are not supported; list them in additional_special_tokens");
  }
  for (std::size_t i = 0; i < node.size(); ++i) {
    const AddedToken token = read_special_token(node.at(i));
    if (!has(config.more_special, token.content)) config.more_special.push_back(token);
  }
}

void read_name(const JsonNode& node, const std::string& key, TokenizerConfig& config) {
  if (!node.value().is_null()) {
    config.names[key] = read_special_token(node);
  } else if (find_needed(key) != nullptr) {
    node.fail("a BERT is trained with this token; name it");
  }
}

void read_decoder(const JsonNode& node, TokenizerConfig& config) {
  config.says_what_is_added = true;
  if (!node.value().is_object()) node.fail(fmt::format("an object of ids is needed, found {}", node.shown()));
  for (const auto& [key, value] : node.value().items()) {
    const JsonNode token = node.member(key);
    const bool digits = !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == key.npos;
    if (!digits || std::stoul(key) >= kMostTokens)
      token.fail(fmt::format("an id must be a number from 0 below {}", kMostTokens));
    config.added.push_back(read_added_token(token, static_cast<std::int32_t>(std::stol(key))));
  }
  std::ranges::stable_sort(config.added, {}, &AddedToken::id);
}

// transformers writes 1e30 for a limit that is none.
void read_max_length(const JsonNode& node, TokenizerConfig& config) {
  constexpr double kNone = 1e9;
  const double length = node.value().is_number() ? node.value().get<double>() : 0;
  if (!(length >= 1)) node.fail(fmt::format("a number of tokens from 1 is needed, found {}", node.shown()));
  if (length < kNone) config.max_length = static_cast<std::int64_t>(length);
}

void check_model_inputs(const JsonNode& node) {
  for (std::size_t i = 0; i < node.size(); ++i)
    if (node.at(i).text() == "token_type_ids") return;
  node.fail("token_type_ids are missing; a BERT is trained with them here: add them");
}

// Words that a slow tokenizer does not split; a fast one, and Rueda, keep special tokens alone whole.
void check_never_split(const JsonNode& node, const TokenizerConfig& config) {
  std::set<std::string> kept = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
  for (const auto& [key, token] : config.names) kept.insert(token.content);
  for (std::size_t i = 0; i < node.size(); ++i)
    if (!kept.contains(node.at(i).text()))
      node.fail(
          fmt::format("\"{}\" would be split all the same, as fast tokenizers do; take it out, or add "
                      "it as a token",
                      node.at(i).text()));
}

// A setting that is not about tokens' names. False if it is not known.
bool read_setting(const std::string& key, const JsonNode& node, TokenizerConfig& config) {
  const bool is_null = node.value().is_null();
  if (const auto fixed = fixed_settings().find(key); fixed != fixed_settings().end()) {
    const auto& [value, reason] = fixed->second;
    if (!is_null && node.value() != value)
      node.fail(fmt::format("{} is not supported: {}; save the tokenizer without this setting", node.shown(),
                            reason));
    return true;
  }
  if (key == "do_lower_case") return config.lower_case = node.boolean(), true;
  if (key == "tokenize_chinese_chars") return config.separate_ideographs = node.boolean(), true;
  if (harmless_settings().contains(key) || is_null) return true;
  if (key == "strip_accents") return config.strip_accents = node.boolean(), true;
  if (key == "tokenizer_class") return config.tokenizer_class = node.text(), true;
  if (key == "model_max_length" || key == "max_len") return read_max_length(node, config), true;
  if (key == "model_input_names") return check_model_inputs(node), true;
  if (key == "never_split") return check_never_split(node, config), true;
  if (key == "added_tokens_decoder") return read_decoder(node, config), true;
  return false;
}

void read_main_file(const std::string& file, const json& document, TokenizerConfig& config) {
  const JsonNode top(file, document);
  if (!document.is_object()) top.fail(fmt::format("an object of settings is needed, found {}", top.shown()));
  for (const auto& [key, value] : document.items())
    if (is_known_name(key)) read_name(top.member(key), key, config);
  for (const auto& [key, value] : document.items()) {
    const JsonNode node = top.member(key);
    if (is_known_name(key)) continue;
    if (is_list_of_more(key)) {
      if (!value.is_null()) read_more_special(node, config);
    } else if (!read_setting(key, node, config)) {
      if (key.ends_with("_token") && value.is_string())
        node.fail("a BERT has no such token; list it in additional_special_tokens");
      config.notes.push_back(fmt::format("{}: the setting {} is not known and not used", file, key));
    }
  }
}

// transformers does not read the file where added_tokens_decoder is there: it must say nothing else then.
void check_special_tokens_map(const JsonNode& node, const std::string& key, const TokenizerConfig& config) {
  TokenizerConfig other;
  if (is_list_of_more(key)) {
    read_more_special(node, other);
    for (const AddedToken& token : other.more_special)
      if (!has(config.added, token.content) && !has(config.more_special, token.content))
        node.fail(fmt::format("\"{}\" is not in tokenizer_config.json; make them equal", token.content));
    return;
  }
  read_name(node, key, other);
  const SpecialTokenKey* needed = find_needed(key);
  std::string said = needed == nullptr ? "" : SpecialTokens().*needed->name;
  if (const auto named = config.names.find(key); named != config.names.end()) said = named->second.content;
  if (other.names[key].content != said)
    node.fail(fmt::format("is \"{}\", but \"{}\" in tokenizer_config.json; make them equal",
                          other.names[key].content, said));
}

void read_special_tokens_map(const std::string& file, const json& document, TokenizerConfig& config) {
  const JsonNode top(file, document);
  if (!document.is_object()) top.fail(fmt::format("an object of tokens is needed, found {}", top.shown()));
  for (const auto& [key, value] : document.items()) {
    const JsonNode node = top.member(key);
    if (!is_list_of_more(key) && !is_known_name(key))
      node.fail("a BERT has no such token; list it in additional_special_tokens");
    if (value.is_null() && find_needed(key) == nullptr) continue;
    if (config.says_what_is_added || config.names.contains(key)) check_special_tokens_map(node, key, config);
    if (config.says_what_is_added) continue;
    if (!is_list_of_more(key)) {
      read_name(node, key, config);
      continue;
    }
    const std::size_t known = config.more_special.size();
    read_more_special(node, config);
    for (const AddedToken& token : std::span(config.more_special).subspan(known))
      config.listed_in_map.insert(token.content);
  }
}

void read_added_file(const std::string& file, const json& document, TokenizerConfig& config) {
  const JsonNode top(file, document);
  if (!document.is_object()) top.fail(fmt::format("an object of tokens is needed, found {}", top.shown()));
  for (const auto& [token, value] : document.items()) {
    const JsonNode node = top.member(token);
    const std::int32_t id = read_token_id(node);
    if (token.empty()) node.fail("a token without text cannot be found; take it out");
    if (!config.says_what_is_added) {
      const bool special = has(config.more_special, token) ||
                           std::ranges::any_of(config.names, [&token = token](const auto& name) {
                             return name.second.content == token;
                           });
      config.added.push_back({.content = token, .id = id, .normalized = !special, .special = special});
      continue;
    }
    const auto known = std::ranges::find(config.added, token, &AddedToken::content);
    if (known == config.added.end() || known->id != id)
      node.fail("added_tokens_decoder in tokenizer_config.json does not say so; make them equal");
  }
  std::ranges::stable_sort(config.added, {}, &AddedToken::id);
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  const auto read = [&](const char* name, auto&& reader) {
    const std::filesystem::path file = folder / name;
    if (std::filesystem::exists(file)) reader(file.string(), read_json(file, kMostTokenizerBytes), config);
  };
  read("tokenizer_config.json", read_main_file);
  read("special_tokens_map.json", read_special_tokens_map);
  read("added_tokens.json", read_added_file);
  return config;
}

}  // namespace rueda::examples
