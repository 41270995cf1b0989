// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/workload/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "examples/lib/model/bert_config.h"

namespace rueda::bench {
namespace {

using examples::BertConfig;

// Purpose: collects the parameters of a model in the order of its layers; a plain value.
struct Parameters {
  std::vector<NamedTensor> all;

  void linear(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
    all.push_back({name + ".weight", inputs * outputs});
    all.push_back({name + ".bias", outputs});
  }
  void layer_norm(const std::string& name, std::int64_t size) {
    all.push_back({name + ".LayerNorm.weight", size});
    all.push_back({name + ".LayerNorm.bias", size});
  }
};

// Includes the masked-word head. Its matrix is that of the word embeddings.
std::vector<NamedTensor> bert_parameters(const BertConfig& config) {
  const std::int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  Parameters made;
  made.all = {{"embeddings.word_embeddings.weight", config.vocab_size * hidden},
              {"embeddings.position_embeddings.weight", config.max_position_embeddings * hidden},
              {"embeddings.token_type_embeddings.weight", config.type_vocab_size * hidden}};
  made.layer_norm("embeddings", hidden);
  for (std::int64_t number = 0; number < config.num_hidden_layers; ++number) {
    const std::string layer = fmt::format("encoder.layer.{}.", number);
    for (const char* part : {"query", "key", "value"})
      made.linear(layer + "attention.self." + part, hidden, hidden);
    made.linear(layer + "attention.output.dense", hidden, hidden);
    made.layer_norm(layer + "attention.output", hidden);
    made.linear(layer + "intermediate.dense", hidden, inner);
    made.linear(layer + "output.dense", inner, hidden);
    made.layer_norm(layer + "output", hidden);
  }
  made.linear("predictions.transform.dense", hidden, hidden);
  made.layer_norm("predictions.transform", hidden);
  made.all.push_back({"predictions.bias", config.vocab_size});
  return made.all;
}

const std::map<std::string, BertConfig>& configurations() {
  static const std::map<std::string, BertConfig> known = [] {
    BertConfig six;
    six.hidden_size = 384;
    six.num_hidden_layers = 6;
    six.intermediate_size = 1536;
    return std::map<std::string, BertConfig>{{"bert6", six}, {"bert-base", BertConfig()}};
  }();
  return known;
}

}  // namespace

std::int64_t Workload::bytes() const {
  std::int64_t elements = 0;
  for (const NamedTensor& each : tensors) elements += each.elements;
  return elements * static_cast<std::int64_t>(sizeof(float));
}

bool Workload::alike() const {
  return std::ranges::all_of(
      tensors, [this](const NamedTensor& each) { return each.elements == tensors.front().elements; });
}

Workload equal_tensors(std::int64_t count, std::int64_t bytes) {
  Workload result;
  for (std::int64_t i = 0; i < count; ++i) {
    // As long as names of parameters are.
    result.tensors.push_back({fmt::format("bench.{}.encoder.layer.{}.attention.weight", bytes, i),
                              bytes / static_cast<std::int64_t>(sizeof(float))});
  }
  return result;
}

Workload gradients_of(const std::string& model) {
  const auto found = configurations().find(model);
  if (found == configurations().end()) throw std::invalid_argument("no model " + model);
  std::vector<NamedTensor> parameters = bert_parameters(found->second);
  std::ranges::reverse(parameters);
  return {std::move(parameters)};
}

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& [name, config] : configurations()) names.push_back(name);
  return names;
}

}  // namespace rueda::bench
