// SPDX-License-Identifier: Apache-2.0
// Reading question answering data in the JSON format of SQuAD, v1.1 and v2.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "examples/lib/data/files/bad_items.h"

namespace rueda::examples {

struct Answer {
  std::string text;
  std::int32_t begin;  // byte offset in the context; the file counts code points
};

struct Question {
  std::string id;
  std::string text;
  std::size_t paragraph;        // index into SquadData::paragraphs
  std::vector<Answer> answers;  // none: the context does not answer it, in v2.0 only
};

struct Paragraph {
  std::size_t article;  // index into SquadData::titles
  std::string context;
};

struct SquadData {
  std::vector<std::string> titles;
  std::vector<Paragraph> paragraphs;
  std::vector<Question> questions;
  // True for v2.0, in which a question may have no answer: the file's "version" says so, or a question is
  // impossible.
  bool may_lack_answers = false;
  BadItems bad;  // that were left out
};

// An item is a question, or an article or a paragraph with all its questions. It is bad where a field is
// missing or of another type, an id occurs before, an answer's text does not stand at its position, or
// "is_impossible" and the answers contradict each other. Throws std::runtime_error naming the file, and the
// JSON path of bad items where they are refused; also where no question is left.
SquadData read_squad(const std::filesystem::path& path, OnBadItems on_bad = OnBadItems::refuse);

// {training, held out}: the last `held_out_articles` articles are held out. Throws std::invalid_argument if
// there are not more articles than that.
std::pair<SquadData, SquadData> split_by_article(const SquadData& data, std::size_t held_out_articles);

}  // namespace rueda::examples
