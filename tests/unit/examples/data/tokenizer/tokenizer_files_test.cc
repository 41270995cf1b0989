// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint's tokenizer: which one counts, what is refused, and that what is written is read
// back. That tokens equal those of transformers is tested in tests/python.
#include "examples/lib/data/tokenizer/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A tokenizer.json as transformers writes it, for [PAD] [UNK] [CLS] [SEP] [MASK] a b ##b.
json tokenizer_json() {
  json added = json::array();
  json vocabulary;
  for (const std::string token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    added.push_back({{"id", vocabulary.size()},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    vocabulary[token] = vocabulary.size();
  }
  for (const std::string token : {"a", "b", "##b"}) vocabulary[token] = vocabulary.size();
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer",
           json::parse(R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                                         "strip_accents": null, "lowercase": true})")},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           json::parse(R"({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})")},
          {"decoder", nullptr},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocabulary}}}};
}

class TokenizerFiles : public testing::Test {
 protected:
  static constexpr std::string_view kVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n";

  void write(const std::string& name, const json& document) { scratch_.write(name, document.dump()); }
  ReadTokenizer read() { return read_tokenizer(scratch_.path()); }
  std::string error() {
    return error_message([&] { read(); });
  }
  // What is said of a tokenizer.json that differs from the usual one at `pointer`.
  std::string error_of_json(const std::string& pointer, const json& value) {
    json document = tokenizer_json();
    document[json::json_pointer(pointer)] = value;
    write("tokenizer.json", document);
    return error();
  }
  std::string error_of_config(const json& config) {
    scratch_.write("vocab.txt", kVocabulary);
    write("tokenizer_config.json", config);
    return error();
  }
  static std::vector<std::string> tokens(const WordPieceTokenizer& tokenizer, std::string_view text) {
    std::vector<std::string> tokens;
    for (const auto& token : tokenizer.tokenize(text)) tokens.push_back(tokenizer.token(token.id));
    return tokens;
  }

  ScratchFolder scratch_;
};

TEST_F(TokenizerFiles, TokenizerJsonCountsBeforeVocabTxt) {
  EXPECT_THAT(error(), HasSubstr("has neither tokenizer.json nor vocab.txt"));
  scratch_.write("vocab.txt", kVocabulary);
  EXPECT_EQ(read().vocabulary.filename(), "vocab.txt");
  write("tokenizer.json", tokenizer_json());
  const ReadTokenizer both = read();
  EXPECT_EQ(both.vocabulary.filename(), "tokenizer.json");
  EXPECT_THAT(both.notes, IsEmpty());
  EXPECT_THAT(tokens(both.tokenizer, "A Abb [SEP]"), ElementsAre("a", "a", "##b", "##b", "[SEP]"));
  scratch_.write("vocab.txt", "a\n" + std::string(kVocabulary));
  EXPECT_THAT(read().notes, ElementsAre(HasSubstr("vocab.txt: it has other tokens than")));
  scratch_.write("vocab.txt", "a\rb\n");
  EXPECT_THAT(read().notes, ElementsAre(HasSubstr("carriage return")));
}

TEST_F(TokenizerFiles, ABertTokenizerNormalizesAsItsConfigurationSays) {
  scratch_.write("vocab.txt", kVocabulary);
  write("tokenizer_config.json",
        {{"do_lower_case", false}, {"strip_accents", true}, {"tokenize_chinese_chars", false}});
  EXPECT_EQ(read().tokenizer.settings().normalizer,
            (NormalizerSettings{.separate_ideographs = false, .strip_accents = true, .lower_case = false}));
  write("tokenizer.json", tokenizer_json());
  EXPECT_FALSE(read().tokenizer.settings().normalizer.lower_case);
  EXPECT_THAT(read().notes, ElementsAre(HasSubstr("its normalizer differs")));
}

TEST_F(TokenizerFiles, AGenericTokenizerIsWhatTokenizerJsonSays) {
  json document = tokenizer_json();
  document["normalizer"] = json::parse(R"({"type": "Sequence", "normalizers": [{"type": "BertNormalizer",
      "clean_text": false, "handle_chinese_chars": false, "strip_accents": false, "lowercase": false}]})");
  document["model"]["max_input_chars_per_word"] = 2;
  document["model"]["continuing_subword_prefix"] = "+";
  document["model"]["vocab"]["+b"] = 8;
  write("tokenizer.json", document);
  write("tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"}});
  EXPECT_THAT(tokens(read().tokenizer, "ab abb A"), ElementsAre("a", "+b", "[UNK]", "[UNK]"));
  document.erase("normalizer");
  write("tokenizer.json", document);
  EXPECT_THAT(tokens(read().tokenizer, "ab\u00a0b A"), ElementsAre("a", "+b", "b", "[UNK]"));
  write("tokenizer_config.json", {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"do_lower_case", true}});
  EXPECT_THAT(error(), HasSubstr("do_lower_case is true, but"));
  std::filesystem::remove(scratch_.path() / "tokenizer.json");
  scratch_.write("vocab.txt", kVocabulary);
  EXPECT_THAT(error(), HasSubstr("the tokenizer_class PreTrainedTokenizerFast needs a tokenizer.json"));
}

TEST_F(TokenizerFiles, PartsThatRuedaHasNotAreNamed) {
  EXPECT_THAT(error_of_json("/model/type", "BPE"),
              AllOf(HasSubstr("tokenizer.json: model: the model BPE"),
                    HasSubstr("WordPiece alone is; choose the checkpoint")));
  EXPECT_THAT(error_of_json("/normalizer/type", "Precompiled"),
              HasSubstr("normalizer: the normalizer Precompiled"));
  EXPECT_THAT(error_of_json("/pre_tokenizer/type", "ByteLevel"), HasSubstr("the pre_tokenizer ByteLevel"));
  EXPECT_THAT(error_of_json("/pre_tokenizer", nullptr), HasSubstr("the pre_tokenizer none"));
  EXPECT_THAT(error_of_json("/post_processor/type", "RobertaProcessing"),
              HasSubstr("the post_processor Roberta"));
  EXPECT_THAT(error_of_json("/post_processor/cls/1", 5),
              HasSubstr("has the id 5 for the cls_token \"[CLS]\", whose id is 2"));
  EXPECT_THAT(error_of_json("/post_processor/cls/0", "a"), HasSubstr("made for the cls_token \"a\""));
  EXPECT_THAT(error_of_json("/padding", {{"direction", "Left"}}), HasSubstr("padding on the \"Left\""));
  EXPECT_THAT(error_of_json("/extra", 1), HasSubstr("the part \"extra\" is not known"));
  EXPECT_THAT(error_of_json("/model/max_input_chars_per_word", 50), HasSubstr("transformers 5 does not"));
  EXPECT_THAT(error_of_json("/model/continuing_subword_prefix", "+"), HasSubstr("transformers 5 does not"));
  EXPECT_THAT(error_of_json("/normalizer/clean_text", false), HasSubstr("clean_text false"));
  EXPECT_THAT(error_of_json("/normalizer/lowercase", "yes"),
              HasSubstr("normalizer.lowercase: true or false is needed"));
}

TEST_F(TokenizerFiles, MalformedTokenizersAreNamed) {
  EXPECT_THAT(error_of_json("/model/vocab/a", -1),
              HasSubstr("the id of token \"a\" must be a number from 0"));
  EXPECT_THAT(error_of_json("/model/vocab/a", 4'000'000'000),
              HasSubstr("must be a number from 0 below 10000000"));
  EXPECT_THAT(error_of_json("/model/vocab/a", json::array()), HasSubstr("is array"));
  EXPECT_THAT(error_of_json("/model/vocab/a", 6), HasSubstr("have one id, 6"));
  EXPECT_THAT(error_of_json("/model/vocab", json::array()), HasSubstr("an object of tokens and their ids"));
  EXPECT_THAT(error_of_json("/model/max_input_chars_per_word", 1'000'000'000),
              HasSubstr("is more than 10000"));
  EXPECT_THAT(error_of_json("/added_tokens/0/id", 7),
              HasSubstr("\"[PAD]\" is written down with the id 7, but has the id 0"));
  EXPECT_THAT(error_of_json("/added_tokens/0/content", ""), HasSubstr("a token without text"));
  EXPECT_THAT(error_of_json("/added_tokens", 1), HasSubstr("added_tokens: an array is needed"));
  scratch_.write("tokenizer.json", "{\"model\":");
  EXPECT_THAT(error(), HasSubstr("tokenizer.json:1:10: malformed JSON"));
  scratch_.write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(error(), HasSubstr("run `git lfs pull`"));
  scratch_.write("tokenizer.json", std::string(1'000'000, '[') + std::string(1'000'000, ']'));
  EXPECT_THAT(error(), HasSubstr("tokenizer.json: top level"));
}

TEST_F(TokenizerFiles, TemplatesMustBeThoseOfBert) {
  const auto special = [](const char* name, int type) {
    return json{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const json single = {special("[CLS]", 0), text("A", 0), special("[SEP]", 0)};
  json pair = single;
  pair.push_back(text("B", 1));
  pair.push_back(special("[SEP]", 1));
  json document = tokenizer_json();
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", single},
                                {"pair", pair},
                                {"special_tokens", {{"[CLS]", {{"ids", {2}}}}, {"[SEP]", {{"ids", {3}}}}}}};
  write("tokenizer.json", document);
  EXPECT_EQ(read().tokenizer.cls_id(), 2);
  json bad = document;
  bad["post_processor"]["pair"][3] = text("B", 0);
  write("tokenizer.json", bad);
  EXPECT_THAT(error(), HasSubstr("the template \"[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:1\" is not supported"));
  bad = document;
  bad["post_processor"]["single"].erase(2);
  write("tokenizer.json", bad);
  EXPECT_THAT(error(), HasSubstr("the template \"[CLS]:0 $A:0\" is not supported"));
  bad = document;
  bad["post_processor"]["special_tokens"]["[SEP]"]["ids"] = {3, 4};
  write("tokenizer.json", bad);
  EXPECT_THAT(error(), HasSubstr("one id is needed, found 2"));
}

TEST_F(TokenizerFiles, SettingsThatWouldChangeTokensAreNamed) {
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"do_basic_tokenize", false}}, "do_basic_tokenize: false is not supported"},
      {{{"clean_text", false}}, "clean_text: false is not supported"},
      {{{"split_special_tokens", true}}, "split_special_tokens: true is not supported"},
      {{{"padding_side", "left"}}, "padding_side: \"left\" is not supported"},
      {{{"wordpieces_prefix", "@"}}, "wordpieces_prefix: \"@\" is not supported"},
      {{{"auto_map", {{"AutoTokenizer", {"a", "b"}}}}}, "auto_map: an object is not supported"},
      {{{"tokenizer_file", "/elsewhere/tokenizer.json"}}, "tokenizer_file"},
      {{{"never_split", {"[UNK]", "word"}}}, "never_split: \"word\" would be split all the same"},
      {{{"do_lower_case", "yes"}}, "do_lower_case: true or false is needed, found \"yes\""},
      {{{"do_lower_case", json::array()}}, "found an array"},
      {{{"mask_token", nullptr}}, "mask_token: a BERT is trained with this token"},
      {{{"cls_token", ""}}, "cls_token: a special token without text"},
      {{{"cls_token", 1}}, "cls_token: a string is needed"},
      {{{"other_token", "x"}}, "other_token: a BERT has no such token"},
      {{{"extra_special_tokens", {{"image_token", "x"}}}}, "tokens by names of their own"},
      {{{"model_max_length", 0}}, "model_max_length: a number of tokens from 1 is needed, found 0"},
      {{{"model_input_names", {"input_ids"}}}, "token_type_ids are missing"},
      {{{"tokenizer_class", "RobertaTokenizer"}}, "the tokenizer_class RobertaTokenizer is not supported"},
      {{{"added_tokens_decoder", {{"x", {{"content", "y"}}}}}},
       "added_tokens_decoder.x: an id must be a number"},
      {{{"added_tokens_decoder", {{"9", {{"content", "y"}}}}}},
       "\"y\" is written down with the id 9, but has the id 8"},
      {json::array(), "an object of settings is needed"}};
  for (const auto& [config, message] : cases)
    EXPECT_THAT(error_of_config(config), HasSubstr(message)) << config;
}

TEST_F(TokenizerFiles, HarmlessSettingsAreReadAndUnknownOnesTold) {
  scratch_.write("vocab.txt", kVocabulary);
  write("tokenizer_config.json", {{"model_max_length", 1e30},
                                  {"name_or_path", "x"},
                                  {"do_basic_tokenize", true},
                                  {"never_split", nullptr},
                                  {"tokenizer_file", nullptr},
                                  {"chat_template", "x"},
                                  {"model_input_names", {"input_ids", "token_type_ids"}}});
  EXPECT_THAT(read().notes, IsEmpty());
  EXPECT_EQ(read().tokenizer.settings().max_length, std::nullopt);
  write("tokenizer_config.json", {{"model_max_length", 256}, {"colour", "red"}});
  EXPECT_THAT(read().notes, ElementsAre(HasSubstr("the setting colour is not known and not used")));
  EXPECT_EQ(read().tokenizer.settings().max_length, 256);
}

TEST_F(TokenizerFiles, FilesOfOlderVersionsCount) {
  scratch_.write("vocab.txt", "[PAD]\n[UNK]\n<s>\n</s>\n[MASK]\na\n");
  write("special_tokens_map.json",
        {{"cls_token", "<s>"}, {"sep_token", {{"content", "</s>"}, {"lstrip", true}}}});
  write("added_tokens.json", {{"new", 6}});
  const WordPieceTokenizer tokenizer = read().tokenizer;
  EXPECT_EQ(tokenizer.cls_id(), 2);
  EXPECT_EQ(tokenizer.sep_id(), 3);
  EXPECT_EQ(tokenizer.vocab_size(), 7U);
  EXPECT_THAT(tokens(tokenizer, "a NEW</s>a"), ElementsAre("a", "new", "</s>", "a"));
  write("tokenizer_config.json", {{"cls_token", "[CLS]"}});
  EXPECT_THAT(error(),
              HasSubstr("special_tokens_map.json: cls_token: is \"<s>\", but \"[CLS]\" in tokenizer_config"));
  write("tokenizer_config.json", {{"added_tokens_decoder", json::object()}});
  EXPECT_THAT(error(), HasSubstr("special_tokens_map.json: cls_token: is \"<s>\", but \"[CLS]\""));
  write("special_tokens_map.json", {{"colour_token", "red"}});
  EXPECT_THAT(error(), HasSubstr("special_tokens_map.json: colour_token: a BERT has no such token"));
}

TEST_F(TokenizerFiles, AListedTokenThatVersionsLookForDifferentlyIsRefused) {
  scratch_.write("vocab.txt", kVocabulary);
  const auto add = [&](const std::string& token, bool lower_case) {
    write("tokenizer_config.json", {{"do_lower_case", lower_case}});
    write("special_tokens_map.json", {{"additional_special_tokens", {token}}});
    write("added_tokens.json", {{token, 8}});
  };
  const auto said = [&](const std::string& token, bool lower_case) {
    add(token, lower_case);
    return error();
  };
  EXPECT_THAT(said("New", true),
              AllOf(HasSubstr("special_tokens_map.json: it lists the token \"New\" of added_tokens.json"),
                    HasSubstr("save the tokenizer again with a current transformers")));
  EXPECT_THAT(said("new", true), HasSubstr("it lists the token \"new\""));  // it would be found in "NEW"
  EXPECT_THAT(said("漢", false), HasSubstr("it lists the token \"漢\""));   // spaces are put around it
  add("New", false);
  EXPECT_THAT(tokens(read().tokenizer, "New new"), ElementsAre("New", "[UNK]"));
  add("<|7|>", true);
  EXPECT_THAT(tokens(read().tokenizer, "a<|7|>"), ElementsAre("a", "<|7|>"));
  // By tokenizer_config.json, or by the map alone, it is a special token for both.
  write("added_tokens.json", {{"New", 8}});
  write("tokenizer_config.json", {{"additional_special_tokens", {"New"}}});
  EXPECT_THAT(tokens(read().tokenizer, "New NEW"), ElementsAre("New", "[UNK]"));
  std::filesystem::remove(scratch_.path() / "added_tokens.json");
  std::filesystem::remove(scratch_.path() / "tokenizer_config.json");
  write("special_tokens_map.json", {{"additional_special_tokens", {"New"}}});
  EXPECT_THAT(tokens(read().tokenizer, "New NEW"), ElementsAre("New", "[UNK]"));
}

TEST_F(TokenizerFiles, AByteOrderMarkIsNamedFirst) {
  const std::string marked = "\uFEFF" + std::string(kVocabulary);
  const std::string mark =
      scratch_.write("vocab.txt", marked).string() + ":1: a byte order mark stands before";
  EXPECT_THAT(error(), AllOf(testing::StartsWith(mark), HasSubstr("the special tokens [PAD] are missing")));
  EXPECT_THAT(error_message([&] { WordPieceTokenizer::from_file(scratch_.path() / "vocab.txt"); }),
              AllOf(testing::StartsWith(mark), HasSubstr("the special tokens [PAD] are missing")));
  scratch_.write("vocab.txt", "\uFEFFx\n" + std::string(kVocabulary));
  EXPECT_THAT(read().notes, ElementsAre(testing::StartsWith(mark)));
}

TEST_F(TokenizerFiles, FilesThatContradictOneAnotherAreNamed) {
  json document = tokenizer_json();
  document["added_tokens"].push_back({{"id", 8}, {"content", "new"}});
  write("tokenizer.json", document);
  EXPECT_EQ(read().tokenizer.vocab_size(), 9U);
  write("tokenizer_config.json", {{"added_tokens_decoder", json::object()}});
  EXPECT_THAT(error(),
              HasSubstr("it adds the token \"new\", which transformers 4 obeys and transformers 5 does not"));
  write("tokenizer_config.json", {{"unk_token", "[PAD]"}});
  EXPECT_THAT(error(), HasSubstr("it is made for the unk_token \"[UNK]\", but the tokenizer's is \"[PAD]\""));
}

TEST_F(TokenizerFiles, WhatIsWrittenIsReadBack) {
  const auto check = [&](const TokenizerSettings& settings) {
    const ScratchFolder saved;
    const WordPieceTokenizer written(settings);
    write_tokenizer(saved.path(), written, 512);
    const ReadTokenizer read = read_tokenizer(saved.path());
    EXPECT_THAT(read.notes, IsEmpty());
    const TokenizerSettings& again = read.tokenizer.settings();
    EXPECT_EQ(again.vocabulary, settings.vocabulary);
    EXPECT_EQ(again.added, settings.added);
    EXPECT_EQ(again.special, settings.special);
    EXPECT_EQ(again.normalizer, settings.normalizer);
    EXPECT_EQ(again.continuation, settings.continuation);
    EXPECT_EQ(again.most_characters_per_word, settings.most_characters_per_word);
    EXPECT_EQ(again.tokenizer_class, settings.tokenizer_class);
    EXPECT_EQ(again.more_special, settings.more_special);
    EXPECT_EQ(again.max_length, std::min<std::int64_t>(512, settings.max_length.value_or(512)));
  };
  scratch_.write("vocab.txt", kVocabulary);
  TokenizerSettings settings = read().tokenizer.settings();
  check(settings);
  settings.vocabulary[6].reset();
  check(settings);
  settings.vocabulary[6] = "b";
  settings.normalizer = {.separate_ideographs = false, .strip_accents = true, .lower_case = false};
  settings.max_length = 128;
  settings.vocabulary.insert(settings.vocabulary.end(), {"c ", "", "\n", "d"});
  settings.added.push_back({.content = "Neu",
                            .id = 12,
                            .single_word = true,
                            .lstrip = true,
                            .rstrip = true,
                            .normalized = true,
                            .special = false});
  settings.added.push_back({.content = "[X]", .id = 13});
  settings.more_special = {"[X]"};
  check(settings);
  settings.tokenizer_class = TokenizerClass::generic;
  settings.normalizer.clean_text = false;
  settings.continuation = "@";
  settings.most_characters_per_word = 7;
  settings.added.erase(settings.added.begin());  // [PAD] is not looked for in the text
  check(settings);
}

}  // namespace
}  // namespace rueda::examples
