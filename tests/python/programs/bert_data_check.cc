// SPDX-License-Identifier: Apache-2.0
// What tests/python/test_bert_data.py compares with Python, as a program:
//   score   JSON lines {prediction, truths} on standard input -> "EXACT F1" a line, as SQuAD v1.1 has it
//   score2  the same, as SQuAD v2.0 has it, and three lines more, "EXACT F1 COUNT" in percent: of all, of
//   those
//           with a truth, of those without
//   features SQUAD VOCAB MAX_LENGTH STRIDE   -> each window as a JSON line
//   copy FROM TO   reads one safetensors file and writes the other
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/lib/data/features.h"
#include "examples/lib/data/metrics.h"
#include "examples/lib/model/safetensors.h"

namespace {

using namespace rueda::examples;

void print_scores(bool second_version) {
  std::vector<Score> scores;
  std::vector<bool> answered;
  for (std::string line; std::getline(std::cin, line);) {
    const auto question = nlohmann::json::parse(line);
    const auto truths = question.at("truths").get<std::vector<std::string>>();
    const auto scored = second_version ? score_with_null : score;
    scores.push_back(scored(question.at("prediction").get<std::string>(), truths));
    answered.push_back(!truths.empty());
    fmt::print("{:.17g} {:.17g}\n", scores.back().exact, scores.back().f1);
  }
  if (!second_version) return;
  const SplitScore split = split_score(scores, answered);
  const auto print = [](const Score& part, std::size_t count) {
    fmt::print("{:.17g} {:.17g} {}\n", part.exact, part.f1, count);
  };
  print(split.all, scores.size());
  print(split.has_answer, split.has_answer_total);
  print(split.no_answer, split.no_answer_total);
}

void print_features(const std::string& squad, const std::string& vocabulary, int max_length, int stride) {
  const auto tokenizer = WordPieceTokenizer::from_file(vocabulary);
  for (const Feature& feature : make_features(read_squad(squad), tokenizer, max_length, stride)) {
    const nlohmann::json line = {{"question", feature.question},
                                 {"input_ids", feature.input_ids},
                                 {"token_types", feature.token_types},
                                 {"span", {feature.start, feature.end}},
                                 {"offsets", feature.offsets}};
    fmt::print("{}\n", line.dump());
  }
}

void copy_safetensors(const std::string& from, const std::string& to) {
  const auto file = SafetensorsFile::open(from);
  write_safetensors(to, file.entries(), file.metadata());
}

void run(std::span<const std::string> arguments) {
  if (arguments.size() == 1 && arguments[0] == "score") return print_scores(false);
  if (arguments.size() == 1 && arguments[0] == "score2") return print_scores(true);
  if (arguments.size() == 3 && arguments[0] == "copy") return copy_safetensors(arguments[1], arguments[2]);
  if (arguments.size() == 5 && arguments[0] == "features")
    return print_features(arguments[1], arguments[2], std::stoi(arguments[3]), std::stoi(arguments[4]));
  throw std::invalid_argument(
      "usage: bert_data_check score | score2 | features SQUAD VOCAB MAX_LENGTH STRIDE | copy FROM TO");
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(std::vector<std::string>(arguments + 1, arguments + count));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
