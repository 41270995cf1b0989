// SPDX-License-Identifier: Apache-2.0
// Which of several files counts, and cases in which transformers 4 and 5 would read different things.
#include "examples/lib/data/tokenizer/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "core/base/error.h"
#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/files/json_node.h"
#include "examples/lib/data/tokenizer/tokenizer_config.h"
#include "examples/lib/data/tokenizer/tokenizer_json.h"
#include "examples/lib/data/tokenizer/vocabulary_file.h"

namespace rueda::examples {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, const std::string& words) {
  throw std::runtime_error(fmt::format("{}: {}", file.string(), words));
}

// Purpose: puts together the settings of one tokenizer. Used once, by one thread.
class TokenizerReader {
 public:
  explicit TokenizerReader(const fs::path& path)
      : folder_(fs::is_directory(path) ? path : path.parent_path()),
        config_file_(folder_ / "tokenizer_config.json"),
        config_(read_tokenizer_config(folder_)) {
    choose_file(path);
    notes_ = config_.notes;
  }

  ReadTokenizer read() {
    settings_.tokenizer_class = tokenizer_class();
    settings_.max_length = config_.max_length;
    if (file_.extension() == ".json") {
      json_ = read_tokenizer_json(file_);
      settings_.vocabulary = json_->vocabulary;
    } else {
      VocabularyFile read = read_vocabulary(file_);
      settings_.vocabulary = std::move(read.tokens);
      byte_order_mark_ = read.byte_order_mark;
      notes_.insert(notes_.end(), read.notes.begin(), read.notes.end());
    }
    set_names();
    settings_.tokenizer_class == TokenizerClass::bert ? set_steps_of_bert() : set_steps_of_file();
    add_tokens();
    compare_vocabularies();
    WordPieceTokenizer tokenizer = make();
    if (!byte_order_mark_.empty()) notes_.insert(notes_.begin(), byte_order_mark_);
    return {.tokenizer = std::move(tokenizer), .vocabulary = file_, .notes = notes_};
  }

 private:
  void choose_file(const fs::path& path) {
    file_ = path;
    if (!fs::is_directory(path)) return;
    file_ = folder_ / "tokenizer.json";
    if (fs::exists(file_)) return;
    file_ = folder_ / "vocab.txt";
    if (!fs::exists(file_))
      throw std::runtime_error(
          fmt::format("{} has neither tokenizer.json nor vocab.txt; save the tokenizer with the model: "
                      "AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER)",
                      folder_.string()));
  }

  // tokenizer_config.json names the class, or else config.json; BERT's own is the default.
  TokenizerClass tokenizer_class() const {
    std::string name = config_.tokenizer_class.value_or("");
    fs::path file = config_file_;
    if (name.empty() && fs::exists(folder_ / "config.json")) {
      file = folder_ / "config.json";
      const std::string source = file.string();
      const nlohmann::json document = read_json(file, kMostTokenizerBytes);
      if (const auto node = JsonNode(source, document).find("tokenizer_class")) name = node->text();
    }
    if (name.empty() || name == "BertTokenizer" || name == "BertTokenizerFast") return TokenizerClass::bert;
    if (name != "PreTrainedTokenizerFast" && name != "TokenizersBackend")
      fail(file, fmt::format("the tokenizer_class {} is not supported; choose a checkpoint with a "
                             "BertTokenizer",
                             name));
    if (file_.extension() != ".json")
      fail(file, fmt::format("the tokenizer_class {} needs a tokenizer.json, and there is none", name));
    return TokenizerClass::generic;
  }

  void set_names() {
    if (settings_.tokenizer_class == TokenizerClass::generic) {
      settings_.special.unknown = json_->unknown;
      settings_.special.classifier = json_->classifier.name;
      settings_.special.separator = json_->separator.name;
    }
    for (const SpecialTokenKey& key : kSpecialTokenKeys)
      if (const auto named = config_.names.find(std::string(key.key)); named != config_.names.end())
        settings_.special.*key.name = named->second.content;
    if (!json_) return;
    check_name("unk_token", settings_.special.unknown, json_->unknown);
    check_name("cls_token", settings_.special.classifier, json_->classifier.name);
    check_name("sep_token", settings_.special.separator, json_->separator.name);
  }

  void check_name(const char* key, const std::string& name, const std::string& in_json) const {
    if (name == in_json) return;
    fail(file_,
         fmt::format("it is made for the {} \"{}\", but the tokenizer's is \"{}\"; make them equal, here "
                     "and in {}",
                     key, in_json, name, config_file_.string()));
  }

  // A BertTokenizer normalizes as tokenizer_config.json says, whatever tokenizer.json does.
  void set_steps_of_bert() {
    NormalizerSettings& normalizer = settings_.normalizer;
    normalizer.lower_case = config_.lower_case.value_or(true);
    normalizer.separate_ideographs = config_.separate_ideographs.value_or(true);
    normalizer.strip_accents = config_.strip_accents;
    if (!json_) return;
    const auto refuse = [&](const std::string& what) {
      fail(file_, fmt::format("{}, which transformers 4 obeys and transformers 5 does not; in {} write "
                              "\"tokenizer_class\": \"PreTrainedTokenizerFast\" if it is to count",
                              what, config_file_.string()));
    };
    if (!json_->has_bert_normalizer) refuse("its normalizer is not a BertNormalizer by itself");
    if (!json_->normalizer.clean_text) refuse("its normalizer has clean_text false");
    if (json_->most_characters_per_word != WordPieceTokenizer::kMostCharactersPerWord)
      refuse(fmt::format("its max_input_chars_per_word is {}, not {}", json_->most_characters_per_word,
                         WordPieceTokenizer::kMostCharactersPerWord));
    if (json_->continuation != settings_.continuation)
      refuse(fmt::format("its continuing_subword_prefix is \"{}\", not \"##\"", json_->continuation));
    if (json_->normalizer == normalizer) return;
    if (std::ranges::any_of(json_->added, &AddedToken::normalized))
      refuse("its normalizer differs from tokenizer_config.json, and so do tokens that it adds");
    notes_.push_back(
        fmt::format("{}: its normalizer differs from what {} says, or BERT's default, and does "
                    "not count, as in transformers",
                    file_.string(), config_file_.string()));
  }

  // tokenizer.json says all; tokenizer_config.json must agree with it.
  void set_steps_of_file() {
    settings_.normalizer = json_->normalizer;
    settings_.continuation = json_->continuation;
    settings_.most_characters_per_word = json_->most_characters_per_word;
    const auto check = [&](const char* key, const std::optional<bool>& said, bool done) {
      if (said && *said != done)
        fail(config_file_, fmt::format("{} is {}, but {} does the opposite and counts; make them equal", key,
                                       *said, file_.string()));
    };
    check("do_lower_case", config_.lower_case, json_->normalizer.lower_case);
    check("tokenize_chinese_chars", config_.separate_ideographs, json_->normalizer.separate_ideographs);
    check("strip_accents", config_.strip_accents, json_->normalizer.strips_accents());
  }

  // Tokens with written ids, each one of the same text and id once. If tokenizer_config.json lists added
  // tokens, that counts; else tokenizer.json before added_tokens.json.
  std::vector<AddedToken> numbered_tokens() const {
    std::map<std::int32_t, AddedToken> tokens;
    for (const AddedToken& token : config_.added) tokens.insert_or_assign(token.id, token);
    const bool json_counts =
        json_ && (!config_.says_what_is_added || settings_.tokenizer_class == TokenizerClass::generic);
    if (json_counts)
      for (const AddedToken& token : json_->added) {
        const auto [entry, is_new] = tokens.emplace(token.id, token);
        if (!is_new && !config_.says_what_is_added) entry->second = token;
      }
    std::vector<AddedToken> numbered;
    for (const auto& [id, token] : tokens) numbered.push_back(token);
    return numbered;
  }

  // For transformers 4 a token that the map lists is a special one; for transformers 5 it is like any other
  // of added_tokens.json.
  void check_listed(const AddedToken& token) const {
    const bool in_json =
        json_ && std::ranges::find(json_->added, token.content, &AddedToken::content) != json_->added.end();
    if (in_json || !config_.listed_in_map.contains(token.content)) return;
    if (is_found_alike(token.content, settings_.normalizer)) return;
    fail(folder_ / "special_tokens_map.json",
         fmt::format("it lists the token \"{}\" of added_tokens.json, which transformers 4 looks for in the "
                     "text as it is and transformers 5 in the normalized text; save the tokenizer again with "
                     "a current transformers",
                     token.content));
  }

  void add_tokens() {
    AddedTokenIds ids(settings_.vocabulary);
    for (const AddedToken& token : numbered_tokens()) {
      check_listed(token);
      const std::int32_t id = ids.add(token.content);
      if (id != token.id || has_added(token.content))
        fail(folder_,
             fmt::format("the added token \"{}\" is written down with the id {}, but has the id {} in "
                         "transformers; save the tokenizer anew",
                         token.content, token.id, id));
      settings_.added.push_back(token);
    }
    add_named("bos_token", ids);
    add_named("eos_token", ids);
    for (const SpecialTokenKey& key : kSpecialTokenKeys) add_named(std::string(key.key), ids);
    for (const AddedToken& token : config_.more_special) {
      add_special(token, ids);
      settings_.more_special.push_back(token.content);
    }
    std::ranges::stable_sort(settings_.added, {}, &AddedToken::id);
    check_frame("cls_token", ids, json_ ? &json_->classifier : nullptr);
    check_frame("sep_token", ids, json_ ? &json_->separator : nullptr);
    if (!json_) return;
    for (const AddedToken& token : json_->added)
      if (!has_added(token.content))
        fail(file_,
             fmt::format("it adds the token \"{}\", which transformers 4 obeys and transformers 5 does "
                         "not, as added_tokens_decoder in {} has no such token; make them equal",
                         token.content, config_file_.string()));
  }

  bool has_added(const std::string& content) const {
    return std::ranges::find(settings_.added, content, &AddedToken::content) != settings_.added.end();
  }

  // BertTokenizer adds its special tokens whether they are named in a file or not.
  void add_named(const std::string& key, AddedTokenIds& ids) {
    const auto needed = std::ranges::find(kSpecialTokenKeys, key, &SpecialTokenKey::key);
    const auto named = config_.names.find(key);
    AddedToken token;
    if (named != config_.names.end()) {
      token = named->second;
    } else if (needed == kSpecialTokenKeys.end() || settings_.tokenizer_class == TokenizerClass::generic) {
      return;
    } else {
      token.content = settings_.special.*needed->name;
    }
    if (key == "bos_token") settings_.begin_token = token.content;
    if (key == "eos_token") settings_.end_token = token.content;
    // One that a BERT must have and that no file has is told as missing.
    const bool is_missing = needed != kSpecialTokenKeys.end() && !ids.knows(token.content);
    if (!is_missing || has_added(token.content)) add_special(token, ids);
  }

  void add_special(AddedToken token, AddedTokenIds& ids) {
    const auto known = std::ranges::find(settings_.added, token.content, &AddedToken::content);
    if (known != settings_.added.end()) {
      known->special = true;
      return;
    }
    token.id = ids.add(token.content);
    token.special = true;
    settings_.added.push_back(std::move(token));
  }

  void check_frame(const char* key, AddedTokenIds& ids, const FrameToken* frame) const {
    if (frame == nullptr || (!ids.knows(frame->name) && !has_added(frame->name))) return;
    if (const std::int32_t id = ids.add(frame->name); id != frame->id)
      fail(file_, fmt::format("its post_processor has the id {} for the {} \"{}\", whose id is {}; save the "
                              "tokenizer anew",
                              frame->id, key, frame->name, id));
  }

  // A vocab.txt beside tokenizer.json is read by nobody, though it may be the one that was edited.
  void compare_vocabularies() {
    const fs::path other = folder_ / "vocab.txt";
    if (!json_ || file_.filename() != "tokenizer.json" || !fs::exists(other)) return;
    try {
      if (is_same(read_vocabulary(other).tokens)) return;
      notes_.push_back(fmt::format("{}: it has other tokens than {}, which counts, as in transformers",
                                   other.string(), file_.string()));
    } catch (const std::runtime_error& error) {
      notes_.push_back(fmt::format("{} ({} counts)", error.what(), file_.string()));
    }
  }

  // As far as a file of lines can tell.
  bool is_same(const std::vector<std::optional<std::string>>& tokens) const {
    const auto& counted = settings_.vocabulary;
    if (tokens.size() > counted.size() || tokens.size() < vocabulary_lines(counted).size()) return false;
    for (std::size_t id = 0; id < tokens.size(); ++id)
      if (tokens[id] && !tokens[id]->empty() && tokens[id] != counted[id]) return false;
    return true;
  }

  WordPieceTokenizer make() const {
    try {
      return WordPieceTokenizer(settings_);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(
          words_of_error(fmt::format("{}: {}", file_.string(), error.what()), byte_order_mark_, notes_));
    }
  }

  fs::path folder_;
  fs::path config_file_;
  fs::path file_;
  TokenizerConfig config_;
  std::optional<TokenizerJson> json_;
  TokenizerSettings settings_;
  std::string byte_order_mark_;  // the note on a byte order mark
  std::vector<std::string> notes_;
};

}  // namespace

ReadTokenizer read_tokenizer(const fs::path& path) { return TokenizerReader(path).read(); }

}  // namespace rueda::examples
