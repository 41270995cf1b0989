// SPDX-License-Identifier: Apache-2.0
// Tokenizing Natural Questions on all cores, in the order of the file.
#include "examples/lib/data/nq_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>

#include "examples/lib/data/files/foreign_file.h"
#include "examples/lib/data/files/line_reader.h"

namespace rueda::examples {
namespace {

static_assert(sizeof(NqTarget) == 3 * sizeof(std::int32_t), "records hold them as they are");

constexpr std::size_t kBlockLines = 256;
constexpr std::size_t kBlockBytes = std::size_t{64} << 20;
// Indices of the counts that a record begins with, and how many these are.
constexpr std::size_t kQuestion = 0, kWords = 1, kPieces = 2, kTargets = 3, kIdBytes = 4, kCounts = 5;

struct NumberedLine {
  std::string text;
  std::string source;
};

// The next lines that are not empty, as many as are tokenized together.
std::vector<NumberedLine> next_block(LineReader& lines) {
  std::vector<NumberedLine> block;
  std::size_t bytes = 0;
  std::string_view line;
  while (block.size() < kBlockLines && bytes < kBlockBytes && lines.next(line)) {
    if (line.find_first_not_of(" \t") == line.npos) continue;
    block.push_back({std::string(line), lines.source()});
    bytes += line.size();
  }
  return block;
}

// work(0) .. work(count - 1) on all cores. Throws the error of the first of them that failed.
template <class Work>
void on_all_cores(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> errors(count);
  {
    std::vector<std::jthread> threads;
    const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t i = 0; i < std::min(most, count); ++i) {
      threads.emplace_back([&] {
        for (std::size_t index = next++; index < count; index = next++) {
          try {
            work(index);
          } catch (...) {
            errors[index] = std::current_exception();
          }
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

// The result for one line.
struct Tokenized {
  std::string id;
  std::vector<std::int32_t> record;
  std::string fault;  // empty: it is good
};

Tokenized tokenize_line(const NumberedLine& line, const WordPieceTokenizer& tokenizer,
                        std::int32_t max_question_length) {
  try {
    NqExample example = parse_nq(line.text, line.source);
    Tokenized made{.record = to_record(example, tokenizer, max_question_length)};
    if (from_record(made.record).question.empty())
      made.fault = fmt::format("{}: example {}: question_text has no word", line.source, example.id);
    made.id = std::move(example.id);
    return made;
  } catch (const std::runtime_error& error) {
    return {.fault = error.what()};
  }
}

// All good examples of a file, in its order. Returns the others.
BadItems write_examples(const std::filesystem::path& path, const WordPieceTokenizer& tokenizer,
                        std::int32_t max_question_length, RecordWriter& writer) {
  BadItems bad;
  LineReader lines(path, &bad);
  std::unordered_set<std::string> ids;
  for (auto block = next_block(lines); !block.empty(); block = next_block(lines)) {
    if (ids.empty() && is_web_page(block.front().text))
      throw std::runtime_error(fmt::format("{}: {}", path.string(), kWebPage));
    std::vector<Tokenized> made(block.size());
    on_all_cores(block.size(),
                 [&](std::size_t i) { made[i] = tokenize_line(block[i], tokenizer, max_question_length); });
    for (std::size_t i = 0; i < made.size(); ++i) {
      Tokenized& one = made[i];
      if (one.fault.empty() && !ids.insert(one.id).second)
        one.fault = fmt::format("{}: example {}: example_id occurs before", block[i].source, one.id);
      if (one.fault.empty())
        writer.append(one.record);
      else
        bad.add(std::move(one.fault));
    }
  }
  return bad;
}

// How much an annotation is preferred as the target; 0 is best.
int preference(AnswerType type) {
  switch (type) {
    case AnswerType::short_answer: return 0;
    case AnswerType::yes:
    case AnswerType::no: return 1;
    case AnswerType::long_answer: return 2;
    case AnswerType::unknown: return 3;
  }
  throw std::logic_error("no such answer type");
}

}  // namespace

NqTarget NqTokens::training_target() const {
  const auto best = std::ranges::min_element(
      targets, {}, [](const NqTarget& target) { return preference(target.answer_type()); });
  return best == targets.end() ? NqTarget{static_cast<std::int32_t>(AnswerType::unknown), 0, 0} : *best;
}

std::int32_t NqTokens::word_of(std::int32_t piece) const {
  return static_cast<std::int32_t>(std::ranges::upper_bound(word_begin, piece) - word_begin.begin()) - 1;
}

std::vector<std::int32_t> to_record(const NqExample& example, const WordPieceTokenizer& tokenizer,
                                    std::int32_t max_question_length) {
  std::vector<std::int32_t> question, question_words;
  std::int32_t word = -1;
  for (const auto& token : tokenizer.tokenize(example.question)) {
    if (question.size() == static_cast<std::size_t>(max_question_length)) break;
    if (word < 0 || !tokenizer.token(token.id).starts_with("##")) ++word;
    question.push_back(token.id);
    question_words.push_back(word);
  }
  std::vector<std::int32_t> pieces, word_begin;
  for (const std::string_view text : document_words(example.document)) {
    word_begin.push_back(static_cast<std::int32_t>(pieces.size()));
    if (is_html_tag(text)) continue;
    for (const auto& token : tokenizer.tokenize(text)) pieces.push_back(token.id);
  }
  const auto words = static_cast<std::int32_t>(word_begin.size());
  word_begin.push_back(static_cast<std::int32_t>(pieces.size()));

  std::vector<std::int32_t> targets;
  for (const NqAnnotation& annotation : example.annotations) {
    const std::int32_t begin = word_begin[static_cast<std::size_t>(annotation.span.begin)];
    const std::int32_t end = word_begin[static_cast<std::size_t>(annotation.span.end)];
    const bool none = annotation.type == AnswerType::unknown || end <= begin;
    const AnswerType type = none ? AnswerType::unknown : annotation.type;
    targets.insert(targets.end(), {static_cast<std::int32_t>(type), none ? 0 : begin, none ? 0 : end});
  }
  std::vector<std::int32_t> id((example.id.size() + sizeof(std::int32_t) - 1) / sizeof(std::int32_t));
  if (!id.empty()) std::memcpy(id.data(), example.id.data(), example.id.size());

  std::vector<std::int32_t> record(kCounts);
  record[kQuestion] = static_cast<std::int32_t>(question.size());
  record[kWords] = words;
  record[kPieces] = static_cast<std::int32_t>(pieces.size());
  record[kTargets] = static_cast<std::int32_t>(example.annotations.size());
  record[kIdBytes] = static_cast<std::int32_t>(example.id.size());
  for (const auto* part : {&question, &question_words, &pieces, &word_begin, &targets, &id})
    record.insert(record.end(), part->begin(), part->end());
  return record;
}

NqTokens from_record(std::span<const std::int32_t> record) {
  const auto count = [&](std::size_t which) { return static_cast<std::size_t>(record[which]); };
  std::size_t at = kCounts;
  const auto take = [&](std::size_t size) { return record.subspan(std::exchange(at, at + size), size); };
  NqTokens tokens;
  tokens.question = take(count(kQuestion));
  tokens.question_words = take(count(kQuestion));
  tokens.pieces = take(count(kPieces));
  tokens.word_begin = take(count(kWords) + 1);
  const auto targets = take(3 * count(kTargets));
  tokens.targets = {reinterpret_cast<const NqTarget*>(targets.data()), count(kTargets)};
  tokens.id = {reinterpret_cast<const char*>(record.data() + at), count(kIdBytes)};
  return tokens;
}

NqCorpus NqCorpus::open(const std::filesystem::path& path, const WordPieceTokenizer& tokenizer,
                        std::int32_t max_question_length, const TokenCache& cache, OnBadItems on_bad) {
  if (max_question_length < 1)
    throw std::invalid_argument(
        fmt::format("max_question_length is {}; it must be at least 1", max_question_length));
  const TokenCache::Key key{path, "nq", fmt::format("max_question_length {}", max_question_length)};
  return NqCorpus(ItemCache::open(key, tokenizer, cache, on_bad, [&](RecordWriter& writer) {
    BadItems bad = write_examples(path, tokenizer, max_question_length, writer);
    if (writer.records() + bad.count() == 0)
      throw std::runtime_error(fmt::format("{}: there is no example in it", path.string()));
    return bad;
  }));
}

}  // namespace rueda::examples
