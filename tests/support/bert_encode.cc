// SPDX-License-Identifier: Apache-2.0
// Runs a checkpoint on lines of text, for comparison with other implementations. Each line of standard input
// is a text or, with a tab, two; the output is a safetensors file: input_ids, token_types, lengths, hidden,
// start, end.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "examples/lib/data/word_piece.h"
#include "examples/lib/model/bert_model.h"
#include "examples/lib/model/checkpoint.h"
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

examples::SafetensorEntry entry(const std::string& name, const std::string& dtype, const at::Tensor& tensor) {
  return {.name = name,
          .dtype = dtype,
          .shape = tensor.sizes().vec(),
          .data = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

void encode(const std::filesystem::path& folder, const std::filesystem::path& output) {
  const examples::BertConfig config = examples::read_bert_config(folder / "config.json");
  const auto file = examples::SafetensorsFile::open(folder / "model.safetensors");
  const auto tokenizer = examples::WordPieceTokenizer::from_file(folder / "vocab.txt");
  const auto model = std::make_shared<examples::BertForQuestionAnswering>(config);
  examples::load_parameters(*model, file, (folder / "model.safetensors").string());
  model->eval();

  std::vector<examples::Feature> features;
  std::vector<std::size_t> chosen;
  for (std::string line; std::getline(std::cin, line);) {
    chosen.push_back(features.size());
    features.push_back(feature_of(line, tokenizer, static_cast<std::size_t>(config.max_position_embeddings)));
  }
  const at::NoGradGuard no_grad;
  const examples::PaddedBatch batch = examples::pad(features, chosen, tokenizer.pad_id());
  const examples::BertInput input = examples::to_input(batch);
  const at::Tensor lengths = input.valid.sum(1);
  const at::Tensor hidden = model->encode(input).to(at::kFloat).contiguous();
  const examples::AnswerLogits logits = model->forward(input);
  const at::Tensor start = logits.start.to(at::kFloat).contiguous();
  const at::Tensor end = logits.end.to(at::kFloat).contiguous();
  const std::vector<examples::SafetensorEntry> entries = {entry("input_ids", "I64", input.input_ids),
                                                          entry("token_types", "I64", input.token_types),
                                                          entry("lengths", "I64", lengths),
                                                          entry("hidden", "F32", hidden),
                                                          entry("start", "F32", start),
                                                          entry("end", "F32", end)};
  examples::write_safetensors(output, entries, {});
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) {
    fmt::print(stderr, "error: usage: bert_encode CHECKPOINT OUTPUT.safetensors < LINES\n");
    return 2;
  }
  try {
    encode(arguments[1], arguments[2]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
