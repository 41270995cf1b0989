// SPDX-License-Identifier: Apache-2.0
// bert_tokenize VOCAB [FILE]: the word piece ids of each line of FILE, or of standard input, one line each.
// With --cased before VOCAB the text is not lower-cased. With --offsets each id is followed by ":BEGIN-END"
// in bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "examples/lib/data/json_file.h"
#include "examples/lib/data/word_piece.h"

namespace {

using rueda::examples::WordPieceTokenizer;

constexpr std::string_view kUsage = "usage: bert_tokenize [--cased] [--offsets] VOCAB [FILE]\n";

std::string format_line(const std::vector<WordPieceTokenizer::Token>& tokens, bool offsets) {
  std::string line;
  for (const auto& token : tokens) {
    if (!line.empty()) line += ' ';
    line += fmt::to_string(token.id);
    if (offsets) line += fmt::format(":{}-{}", token.begin, token.end);
  }
  return line += '\n';
}

int run(bool cased, bool offsets, const std::string& vocabulary, const std::string& file) {
  const auto tokenizer = WordPieceTokenizer::from_file(vocabulary, !cased);
  const std::string text = rueda::examples::read_text(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    fmt::print("{}",
               format_line(tokenizer.tokenize(std::string_view(text).substr(begin, end - begin)), offsets));
    begin = end + 1;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  bool cased = false, offsets = false;
  std::vector<std::string> files;
  for (const std::string_view argument : std::vector<std::string_view>(arguments + 1, arguments + count)) {
    if (argument == "--cased") {
      cased = true;
    } else if (argument == "--offsets") {
      offsets = true;
    } else if (argument.starts_with("--")) {
      fmt::print(stderr, "error: unknown option {}\n{}", argument, kUsage);
      return 2;
    } else {
      files.emplace_back(argument);
    }
  }
  if (files.empty() || files.size() > 2) {
    fmt::print(stderr, "error: a vocabulary and at most one file are needed\n{}", kUsage);
    return 2;
  }
  try {
    return run(cased, offsets, files[0], files.size() == 2 ? files[1] : "/dev/stdin");
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
