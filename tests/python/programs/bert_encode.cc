// SPDX-License-Identifier: Apache-2.0
// Runs a checkpoint on lines of text, for comparison with other implementations. Each line of standard input
// is a text or, with a tab, two; the output is a safetensors file: input_ids, token_types, lengths, hidden,
// and what the head gives: start, end (qa); start, end, type (nq); logits (mlm). SAVED: where the checkpoint
// is written again, with that head.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/lib/data/tokenizer/tokenizer_files.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/model/checkpoint.h"
#include "examples/lib/model/masked_lm.h"
#include "examples/lib/model/natural_questions.h"
#include "examples/lib/model/safetensors.h"

namespace {

namespace examples = rueda::examples;

// [CLS] first [SEP], and second [SEP] if there is one, cut to what the model has positions for.
examples::Feature feature_of(const std::string& line, const examples::WordPieceTokenizer& tokenizer,
                             std::size_t max_length) {
  examples::Feature feature{};
  feature.input_ids.push_back(tokenizer.cls_id());
  feature.token_types.push_back(0);
  const auto tab = line.find('\t');
  const auto add = [&](const std::string& text, std::int32_t type) {
    for (const auto& token : tokenizer.tokenize(text)) feature.input_ids.push_back(token.id);
    feature.input_ids.push_back(tokenizer.sep_id());
    feature.token_types.resize(feature.input_ids.size(), type);
  };
  add(line.substr(0, tab), 0);
  if (tab != std::string::npos) add(line.substr(tab + 1), 1);
  if (feature.input_ids.size() > max_length) {
    feature.input_ids.resize(max_length);
    feature.token_types.resize(max_length);
  }
  return feature;
}

rueda::SafetensorEntry entry(const std::string& name, const std::string& dtype, const at::Tensor& tensor) {
  return {.name = name,
          .dtype = dtype,
          .shape = tensor.sizes().vec(),
          .data = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

using Outputs = std::map<std::string, at::Tensor>;

Outputs outputs_of(examples::BertForQuestionAnswering& model, const examples::BertInput& input) {
  const examples::AnswerLogits logits = model.forward(input);
  return {{"start", logits.start}, {"end", logits.end}};
}

Outputs outputs_of(examples::BertForNaturalQuestions& model, const examples::BertInput& input) {
  const examples::NaturalQuestionsLogits logits = model.forward(input);
  return {{"start", logits.answer.start}, {"end", logits.answer.end}, {"type", logits.type}};
}

Outputs outputs_of(examples::BertForMaskedLM& model, const examples::BertInput& input) {
  return {{"logits", model.forward(input)}};
}

struct Arguments {
  std::filesystem::path folder;
  std::filesystem::path output;
  std::string head = "qa";
  std::filesystem::path saved;  // empty: not saved
};

template <class Model>
void encode(const Arguments& arguments) {
  const std::filesystem::path& folder = arguments.folder;
  const examples::BertConfig config = examples::read_bert_config(folder / "config.json");
  const auto tokenizer = examples::read_tokenizer(folder).tokenizer;
  const auto model = std::make_shared<Model>(config);
  examples::load_parameters(*model, folder);
  model->eval();
  if (!arguments.saved.empty()) {
    examples::save_checkpoint(arguments.saved, *model, tokenizer);
  }

  std::vector<examples::Feature> features;
  std::vector<std::size_t> chosen;
  for (std::string line; std::getline(std::cin, line);) {
    chosen.push_back(features.size());
    features.push_back(feature_of(line, tokenizer, static_cast<std::size_t>(config.max_position_embeddings)));
  }
  const at::NoGradGuard no_grad;
  const examples::PaddedBatch batch = examples::pad(features, chosen, tokenizer.pad_id());
  const examples::BertInput input = examples::to_input(batch);
  Outputs outputs = outputs_of(*model, input);
  outputs.emplace("hidden", model->encode(input));
  for (auto& [name, tensor] : outputs) tensor = tensor.to(at::kFloat).contiguous();
  const at::Tensor lengths = input.valid.sum(1);
  std::vector<rueda::SafetensorEntry> entries = {entry("input_ids", "I64", input.input_ids),
                                                 entry("token_types", "I64", input.token_types),
                                                 entry("lengths", "I64", lengths)};
  for (const auto& [name, tensor] : outputs) entries.push_back(entry(name, "F32", tensor));
  examples::write_safetensors(arguments.output, entries, {});
}

void encode_with_head(const Arguments& arguments) {
  if (arguments.head == "qa") return encode<examples::BertForQuestionAnswering>(arguments);
  if (arguments.head == "nq") return encode<examples::BertForNaturalQuestions>(arguments);
  if (arguments.head == "mlm") return encode<examples::BertForMaskedLM>(arguments);
  throw std::invalid_argument("the head is " + arguments.head + "; it must be qa, nq or mlm");
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 3 || argument_count > 5) {
    fmt::print(stderr,
               "error: usage: bert_encode CHECKPOINT OUTPUT.safetensors [qa|nq|mlm [SAVED]] < LINES\n");
    return 2;
  }
  try {
    encode_with_head({.folder = arguments[1],
                      .output = arguments[2],
                      .head = argument_count > 3 ? arguments[3] : "qa",
                      .saved = argument_count > 4 ? arguments[4] : ""});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
