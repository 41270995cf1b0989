// SPDX-License-Identifier: Apache-2.0
// Reading SQuAD's JSON with a check of every field, and the split by article.
#include "examples/lib/data/squad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "examples/lib/data/files/json_file.h"
#include "examples/lib/data/files/json_node.h"

namespace rueda::examples {
namespace {

using nlohmann::json;

bool begins_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// The first byte of each code point of `text`, and the end of `text`.
std::vector<std::int32_t> code_point_offsets(std::string_view text) {
  std::vector<std::int32_t> offsets;
  for (std::size_t byte = 0; byte < text.size(); ++byte)
    if (begins_code_point(text[byte])) offsets.push_back(static_cast<std::int32_t>(byte));
  offsets.push_back(static_cast<std::int32_t>(text.size()));
  return offsets;
}

// A text as a message shows it: in one line, and never long.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return json(text).dump();
  std::size_t length = kMost;
  while (!begins_code_point(text[length])) --length;
  return json(text.substr(0, length)).dump() + "...";
}

// Purpose: one reading of one file.
class SquadReader {
 public:
  explicit SquadReader(std::string file) : file_(std::move(file)) {}

  SquadData read(const json& document) {
    const JsonNode top(file_, document);
    const JsonNode articles = top.member("data");
    const auto version = document.find("version");
    data_.may_lack_answers = version != document.end() && (*version == "v2.0" || *version == "2.0");
    for (std::size_t i = 0; i < articles.size(); ++i)
      data_.bad.attempt([&] { read_article(articles.at(i)); });
    if (data_.questions.empty()) {
      data_.bad.refuse_all(file_);
      articles.fail("there is no question in it");
    }
    return std::move(data_);
  }

 private:
  void read_article(const JsonNode& node) {
    const auto named = node.find("title");  // that SQuAD's own scripts do not read
    std::string title = named ? named->text() : "";
    const JsonNode paragraphs = node.member("paragraphs");
    const std::size_t count = paragraphs.size();
    data_.titles.push_back(std::move(title));
    for (std::size_t i = 0; i < count; ++i) data_.bad.attempt([&] { read_paragraph(paragraphs.at(i)); });
  }

  void read_paragraph(const JsonNode& node) {
    const JsonNode context = node.member("context");
    Paragraph paragraph{data_.titles.size() - 1, context.text()};
    if (paragraph.context.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      context.fail("a context of 2 GiB or more cannot be read");
    const JsonNode questions = node.member("qas");
    const std::size_t count = questions.size();
    data_.paragraphs.push_back(std::move(paragraph));
    offsets_ = code_point_offsets(data_.paragraphs.back().context);
    for (std::size_t i = 0; i < count; ++i) data_.bad.attempt([&] { read_question(questions.at(i)); });
  }

  void read_question(const JsonNode& unnamed) {
    const JsonNode id = unnamed.member("id");
    Question question{id.text(), {}, data_.paragraphs.size() - 1, {}};
    const std::string source = fmt::format("{}: question {}", file_, shown(question.id));
    const JsonNode node = unnamed.with_source(source);
    if (!ids_.insert(question.id).second) id.with_source(source).fail("the id occurs before");
    question.text = node.member("question").text();
    const JsonNode answers = node.member("answers");
    for (std::size_t i = 0; i < answers.size(); ++i) question.answers.push_back(read_answer(answers.at(i)));
    check_whether_answered(node, !question.answers.empty());
    data_.questions.push_back(std::move(question));
  }

  // Of v2.0 is a file that says so, and any with an impossible question.
  void check_whether_answered(const JsonNode& node, bool answered) {
    const std::optional<JsonNode> told = node.find("is_impossible");
    const bool impossible = told && told->boolean();
    if (impossible && answered) node.fail("is_impossible is true, and there are answers");
    if (impossible) data_.may_lack_answers = true;
    if (answered || impossible) return;
    if (told) node.fail("is_impossible is false, and there is no answer");
    if (!data_.may_lack_answers)
      node.fail("there is no answer; only a question whose is_impossible is true may lack one");
  }

  Answer read_answer(const JsonNode& node) const {
    Answer answer{node.member("text").text(), 0};
    const JsonNode start = node.member("answer_start");
    if (!start.value().is_number_unsigned() && start.value() == -1)
      start.fail(
          "answer_start is -1: a question that is unanswerable has no answers, and is_impossible true");
    const std::size_t position = start.position();
    if (answer.text.empty()) node.fail("an answer without text");
    if (stands_at(answer.text, position)) {
      answer.begin = offsets_[position];
      return answer;
    }
    for (const std::size_t near : {position - 1, position + 1}) {
      if (!stands_at(answer.text, near)) continue;
      start.fail(fmt::format("answer_start is off by one: {} stands at character {}, not at {}",
                             shown(answer.text), near, position));
    }
    fail_on_answer(start, answer.text, position);
  }

  bool stands_at(std::string_view text, std::size_t position) const {
    return position < offsets_.size() - 1 &&
           context().substr(static_cast<std::size_t>(offsets_[position])).starts_with(text);
  }

  [[noreturn]] void fail_on_answer(const JsonNode& start, std::string_view text, std::size_t position) const {
    if (position >= offsets_.size() - 1)
      start.fail(fmt::format("{} is expected at character {}, the context has {}", shown(text), position,
                             offsets_.size() - 1));
    const std::string_view rest = context().substr(static_cast<std::size_t>(offsets_[position]));
    std::size_t length = std::min(text.size(), rest.size());
    while (length < rest.size() && !begins_code_point(rest[length])) ++length;
    start.fail(fmt::format("{} is expected at character {}, found {}", shown(text), position,
                           shown(rest.substr(0, length))));
  }

  std::string_view context() const { return data_.paragraphs.back().context; }

  const std::string file_;
  SquadData data_;
  std::vector<std::int32_t> offsets_;  // of the last paragraph's code points
  std::unordered_set<std::string> ids_;
};

// The articles from `first` to before `last`, renumbered from 0.
SquadData select_articles(const SquadData& data, std::size_t first, std::size_t last) {
  SquadData selected;
  selected.may_lack_answers = data.may_lack_answers;
  selected.titles.assign(data.titles.begin() + static_cast<std::ptrdiff_t>(first),
                         data.titles.begin() + static_cast<std::ptrdiff_t>(last));
  std::vector<std::optional<std::size_t>> indices(data.paragraphs.size());
  for (std::size_t i = 0; i < data.paragraphs.size(); ++i) {
    const std::size_t article = data.paragraphs[i].article;
    if (article < first || article >= last) continue;
    indices[i] = selected.paragraphs.size();
    selected.paragraphs.push_back({article - first, data.paragraphs[i].context});
  }
  for (const Question& question : data.questions) {
    if (!indices[question.paragraph]) continue;
    selected.questions.push_back(question);
    selected.questions.back().paragraph = *indices[question.paragraph];
  }
  return selected;
}

}  // namespace

SquadData read_squad(const std::filesystem::path& path, OnBadItems on_bad) {
  const std::string file = path.string();
  const json document = read_json(path);
  SquadData data = SquadReader(file).read(document);
  if (on_bad == OnBadItems::refuse) data.bad.refuse_any(file);
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
