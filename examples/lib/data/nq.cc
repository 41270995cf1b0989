// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/nq.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/files/json_node.h"

namespace rueda::examples {
namespace {

// A span of the document's words; empty where the file says -1.
NqSpan read_span(const JsonNode& node, std::int64_t words) {
  const std::int64_t begin = node.member("start_token").integer();
  const std::int64_t end = node.member("end_token").integer();
  if (begin == -1 && end == -1) return {};
  if (begin < 0 || end <= begin || end > words) {
    node.fail(fmt::format("tokens {} to {} are not in the document, which has {}", begin, end, words));
  }
  return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
}

AnswerType read_yes_no(const JsonNode& node) {
  const std::string words = node.text();
  if (words == "NONE") return AnswerType::unknown;
  if (words == "YES") return AnswerType::yes;
  if (words == "NO") return AnswerType::no;
  node.fail(fmt::format("NONE, YES or NO is needed, found {}", words));
}

NqAnnotation read_annotation(const JsonNode& node, std::int64_t words) {
  const NqSpan long_answer = read_span(node.member("long_answer"), words);
  const AnswerType yes_no = read_yes_no(node.member("yes_no_answer"));
  const JsonNode short_answers = node.member("short_answers");
  NqSpan joined;
  for (std::size_t i = 0; i < short_answers.size(); ++i) {
    const NqSpan one = read_span(short_answers.at(i), words);
    if (one.empty()) continue;
    joined = joined.empty() ? one : NqSpan{std::min(joined.begin, one.begin), std::max(joined.end, one.end)};
  }
  if (!joined.empty()) return {AnswerType::short_answer, joined};
  if (yes_no != AnswerType::unknown) return {yes_no, long_answer};
  if (!long_answer.empty()) return {AnswerType::long_answer, long_answer};
  return {};
}

std::string read_id(const JsonNode& node) {
  return node.value().is_string() ? node.text() : fmt::to_string(node.integer());
}

void read_example(const JsonNode& node, NqExample& example) {
  example.question = node.member("question_text").text();
  example.document = node.member("document_text").text();
  if (example.question.empty()) node.fail("question_text is empty");
  if (example.document.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    node.fail("a document of 2 GiB or more cannot be read");
  const auto spaces = std::ranges::count(example.document, ' ');
  const std::int64_t words = example.document.empty() ? 0 : spaces + 1;
  const JsonNode annotations = node.member("annotations");
  for (std::size_t i = 0; i < annotations.size(); ++i)
    example.annotations.push_back(read_annotation(annotations.at(i), words));
}

}  // namespace

std::vector<std::string_view> document_words(std::string_view document) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; !document.empty() && begin <= document.size();) {
    const std::size_t end = std::min(document.find(' ', begin), document.size());
    words.push_back(document.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

bool is_html_tag(std::string_view word) {
  return word.size() > 2 && word.starts_with('<') && word.ends_with('>');
}

NqExample parse_nq(std::string_view line, const std::string& source) {
  const nlohmann::json document = parse_json_line(line, source);
  const JsonNode node(source, document);
  if (document.is_object() && document.contains("document_tokens") && !document.contains("document_text")) {
    node.fail("this is the full form of Natural Questions, the simplified one (document_text) is needed");
  }
  NqExample example{.id = read_id(node.member("example_id"))};
  const std::string named = fmt::format("{}: example {}", source, example.id);
  read_example(node.with_source(named), example);
  return example;
}

}  // namespace rueda::examples
