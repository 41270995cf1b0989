// SPDX-License-Identifier: Apache-2.0
// bert_tokenize TOKENIZER [FILE]: the word piece ids of each line of FILE, or of standard input, one line
// each. TOKENIZER is the folder of a checkpoint, or a vocab.txt by itself; of that --cased does not
// lower-case the text. With --offsets each id is followed by ":BEGIN-END" in bytes. With --save FOLDER the
// tokenizer's files are written there.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/tokenizer/tokenizer_files.h"
#include "examples/lib/data/tokenizer/word_piece.h"

namespace {

using rueda::examples::WordPieceTokenizer;

constexpr std::string_view kUsage =
    "usage: bert_tokenize [--cased] [--offsets] [--save FOLDER] FOLDER|VOCAB [FILE]\n";
constexpr std::string_view kHelp =
    "\nThe word piece ids of each line of FILE, or of standard input, one line each.\n"
    "FOLDER is that of a checkpoint, VOCAB a vocab.txt by itself.\n\n"
    "  --cased         do not lower-case the text; for VOCAB\n"
    "  --offsets       each id is followed by :BEGIN-END in bytes\n"
    "  --save FOLDER   write the tokenizer's files there, too\n"
    "  --help          show this text\n";
constexpr std::int64_t kMostTokens = 512;  // of a BERT, if the tokenizer does not say

struct Arguments {
  bool cased = false;
  bool offsets = false;
  std::string saved;
  std::vector<std::string> files;
};

std::string format_line(const std::vector<WordPieceTokenizer::Token>& tokens, bool offsets) {
  std::string line;
  for (const auto& token : tokens) {
    if (!line.empty()) line += ' ';
    line += fmt::to_string(token.id);
    if (offsets) line += fmt::format(":{}-{}", token.begin, token.end);
  }
  return line += '\n';
}

WordPieceTokenizer tokenizer_of(const Arguments& arguments) {
  const std::filesystem::path path = arguments.files[0];
  if (!std::filesystem::is_directory(path)) return WordPieceTokenizer::from_file(path, !arguments.cased);
  if (arguments.cased)
    throw std::runtime_error("--cased is for a vocab.txt; " + path.string() +
                             " says itself how it reads text");
  rueda::examples::ReadTokenizer read = rueda::examples::read_tokenizer(path);
  for (const std::string& note : read.notes) fmt::print(stderr, "{}\n", note);
  return std::move(read.tokenizer);
}

int run(const Arguments& arguments) {
  const WordPieceTokenizer tokenizer = tokenizer_of(arguments);
  if (!arguments.saved.empty()) {
    std::filesystem::create_directories(arguments.saved);
    rueda::examples::write_tokenizer(arguments.saved, tokenizer, kMostTokens);
  }
  const std::string text =
      rueda::examples::read_text(arguments.files.size() == 2 ? arguments.files[1] : "/dev/stdin");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto tokens = tokenizer.tokenize(std::string_view(text).substr(begin, end - begin));
    fmt::print("{}", format_line(tokens, arguments.offsets));
    begin = end + 1;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = values[i];
    if (argument == "--help") {
      fmt::print("{}{}", kUsage, kHelp);
      return 0;
    }
    if (argument == "--cased") {
      arguments.cased = true;
    } else if (argument == "--offsets") {
      arguments.offsets = true;
    } else if (argument == "--save" && i + 1 < count) {
      arguments.saved = values[++i];
    } else if (argument.starts_with("--")) {
      fmt::print(stderr, "error: unknown option {}\n{}", argument, kUsage);
      return 2;
    } else {
      arguments.files.emplace_back(argument);
    }
  }
  if (arguments.files.empty() || arguments.files.size() > 2) {
    fmt::print(stderr, "error: a tokenizer and at most one file are needed\n{}", kUsage);
    return 2;
  }
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
