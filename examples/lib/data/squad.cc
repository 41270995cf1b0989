// SPDX-License-Identifier: Apache-2.0
// Reading SQuAD v1.1 JSON with a check of every field, and the split by article.
#include "examples/lib/data/squad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "examples/lib/data/json_file.h"
#include "examples/lib/data/json_node.h"

namespace rueda::examples {
namespace {

using nlohmann::json;

bool begins_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Where each code point of `text` begins, and its end.
std::vector<std::int32_t> code_point_offsets(std::string_view text) {
  std::vector<std::int32_t> offsets;
  for (std::size_t byte = 0; byte < text.size(); ++byte)
    if (begins_code_point(text[byte])) offsets.push_back(static_cast<std::int32_t>(byte));
  offsets.push_back(static_cast<std::int32_t>(text.size()));
  return offsets;
}

Answer read_answer(const JsonNode& node, const std::string& id, std::string_view context,
                   const std::vector<std::int32_t>& offsets) {
  Answer answer{node.member("text").text(), 0};
  const JsonNode start = node.member("answer_start");
  const std::size_t position = start.position();
  if (answer.text.empty()) node.fail(fmt::format("question {} has an empty answer", id));
  if (position >= offsets.size() - 1)
    start.fail(fmt::format("question {}: \"{}\" is expected at character {}, the context has {}", id,
                           answer.text, position, offsets.size() - 1));
  answer.begin = offsets[position];
  const std::string_view rest = context.substr(static_cast<std::size_t>(answer.begin));
  if (!rest.starts_with(answer.text)) {
    std::size_t length = std::min(answer.text.size(), rest.size());
    while (length < rest.size() && !begins_code_point(rest[length])) ++length;
    start.fail(fmt::format("question {}: \"{}\" is expected at character {}, found \"{}\"", id, answer.text,
                           position, rest.substr(0, length)));
  }
  return answer;
}

Question read_question(const JsonNode& node, std::size_t paragraph, std::string_view context,
                       const std::vector<std::int32_t>& offsets) {
  Question question{node.member("id").text(), node.member("question").text(), paragraph, {}};
  const JsonNode answers = node.member("answers");
  if (answers.size() == 0)
    answers.fail(fmt::format("question {} has no answer; SQuAD v1.1 gives each at least one", question.id));
  for (std::size_t i = 0; i < answers.size(); ++i)
    question.answers.push_back(read_answer(answers.at(i), question.id, context, offsets));
  return question;
}

void read_paragraph(const JsonNode& node, SquadData& data) {
  const JsonNode context = node.member("context");
  Paragraph paragraph{data.titles.size() - 1, context.text()};
  if (paragraph.context.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    context.fail("a context of 2 GiB or more cannot be read");
  const auto offsets = code_point_offsets(paragraph.context);
  const JsonNode questions = node.member("qas");
  for (std::size_t i = 0; i < questions.size(); ++i)
    data.questions.push_back(
        read_question(questions.at(i), data.paragraphs.size(), paragraph.context, offsets));
  data.paragraphs.push_back(std::move(paragraph));
}

// The articles from `first` to before `last`, renumbered from 0.
SquadData select_articles(const SquadData& data, std::size_t first, std::size_t last) {
  SquadData selected;
  selected.titles.assign(data.titles.begin() + static_cast<std::ptrdiff_t>(first),
                         data.titles.begin() + static_cast<std::ptrdiff_t>(last));
  std::vector<std::optional<std::size_t>> places(data.paragraphs.size());
  for (std::size_t i = 0; i < data.paragraphs.size(); ++i) {
    const std::size_t article = data.paragraphs[i].article;
    if (article < first || article >= last) continue;
    places[i] = selected.paragraphs.size();
    selected.paragraphs.push_back({article - first, data.paragraphs[i].context});
  }
  for (const Question& question : data.questions) {
    if (!places[question.paragraph]) continue;
    selected.questions.push_back(question);
    selected.questions.back().paragraph = *places[question.paragraph];
  }
  return selected;
}

}  // namespace

SquadData read_squad(const std::filesystem::path& path) {
  const std::string file = path.string();
  const json document = read_json(path);
  const JsonNode articles = JsonNode(file, document).member("data");
  SquadData data;
  for (std::size_t i = 0; i < articles.size(); ++i) {
    const JsonNode article = articles.at(i);
    data.titles.push_back(article.member("title").text());
    const JsonNode paragraphs = article.member("paragraphs");
    for (std::size_t j = 0; j < paragraphs.size(); ++j) read_paragraph(paragraphs.at(j), data);
  }
  if (data.questions.empty()) articles.fail("there is no question in it");
  return data;
}

std::pair<SquadData, SquadData> split_by_article(const SquadData& data, std::size_t held_out_articles) {
  const std::size_t articles = data.titles.size();
  if (held_out_articles >= articles)
    throw std::invalid_argument(
        fmt::format("cannot hold out {} of {} articles: at least one must be left for training",
                    held_out_articles, articles));
  const std::size_t border = articles - held_out_articles;
  return {select_articles(data, 0, border), select_articles(data, border, articles)};
}

}  // namespace rueda::examples
