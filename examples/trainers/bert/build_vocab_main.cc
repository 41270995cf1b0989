// SPDX-License-Identifier: Apache-2.0
// build_vocab FILE...: makes a vocab.txt of word pieces from texts, for models that start without a
// checkpoint.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <boost/program_options.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/files/whole_file.h"
#include "examples/lib/data/files/bad_items.h"
#include "examples/lib/data/text_source.h"
#include "examples/lib/data/tokenizer/vocabulary.h"

namespace rueda::examples {
namespace {

namespace po = boost::program_options;

struct VocabOptions {
  std::vector<std::string> files;
  std::int64_t size = 8000;
  std::int64_t min_count = 2;
  std::int64_t alphabet = 1000;
  std::string output = "vocab.txt";
  std::string on_bad = "refuse";
};

po::options_description description(VocabOptions& options) {
  po::options_description flags(
      "usage: build_vocab [flags] FILE...\n"
      "Makes a vocabulary of word pieces from texts: plain (also Project Gutenberg's), WikiText, or "
      "tab-separated\n"
      "reviews; gzip or not. The same texts give the same vocabulary.\n\nflags",
      110);
  // clang-format off
  flags.add_options()
      ("help", "show this")
      ("size", po::value(&options.size)->value_name("N"), "tokens, five special ones included [8000]")
      ("min-count", po::value(&options.min_count)->value_name("N"), "how often two pieces must stand together to be joined [2]")
      ("alphabet", po::value(&options.alphabet)->value_name("N"), "most frequent characters that are kept [1000]")
      ("cased", "keep capital letters and accents; say so in tokenizer_config.json: {\"do_lower_case\": false}")
      ("bad-items", po::value(&options.on_bad)->value_name("refuse|skip"), "lines that cannot be used end the run, or are left out and told [refuse]")
      ("output", po::value(&options.output)->value_name("FILE"), "[vocab.txt]");
  // clang-format on
  return flags;
}

void check(const VocabOptions& options) {
  if (options.files.empty()) throw po::error("no FILE is named to make the vocabulary of; see --help");
  for (const auto& [flag, value] :
       {std::pair("size", options.size), {"min-count", options.min_count}, {"alphabet", options.alphabet}}) {
    if (value < 1) throw po::error(fmt::format("--{} is {}; it must be at least 1", flag, value));
  }
  if (options.on_bad != "refuse" && options.on_bad != "skip")
    throw po::error(fmt::format("--bad-items is '{}'; it must be refuse or skip", options.on_bad));
}

void write_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  WholeFile file(path);
  for (const std::string& line : lines) file.write(line + '\n');
  file.commit();
}

int run(const VocabOptions& options, bool lower_case) {
  WordCounts words(lower_case);
  for (const std::string& file : options.files) {
    const BadItems bad =
        read_paragraphs(file, text_format(file), {[&](std::string_view text) { words.add(text); }, [] {}});
    if (options.on_bad == "refuse") bad.refuse_any(file);
    for (const std::string& line : bad.words(file)) fmt::print("{}\n", line);
  }
  const std::vector<std::string> tokens = train_vocabulary(
      words, {static_cast<std::size_t>(options.size), static_cast<std::uint64_t>(options.min_count),
              static_cast<std::size_t>(options.alphabet)});
  write_lines(options.output, tokens);
  fmt::print("{} tokens from {} different words, in {}\n", tokens.size(), words.counts().size(),
             options.output);
  return 0;
}

int main_or_throw(int argument_count, char** arguments) {
  VocabOptions options;
  po::options_description all = description(options);
  po::options_description hidden;
  hidden.add_options()("file", po::value(&options.files));
  po::variables_map given;
  const po::options_description known = po::options_description().add(all).add(hidden);
  const auto no_guessing = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::store(po::command_line_parser(argument_count, arguments)
                .options(known)
                .positional(po::positional_options_description().add("file", -1))
                .style(no_guessing)
                .run(),
            given);
  po::notify(given);
  if (given.count("help") > 0) {
    fmt::print("{}", fmt::streamed(all));
    return 0;
  }
  check(options);
  return run(options, given.count("cased") == 0);
}

}  // namespace
}  // namespace rueda::examples

int main(int argument_count, char** arguments) {
  try {
    return rueda::examples::main_or_throw(argument_count, arguments);
  } catch (const boost::program_options::error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
