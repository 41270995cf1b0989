// SPDX-License-Identifier: Apache-2.0
// Reading question answering data in the SQuAD v1.1 JSON format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace rueda::examples {

struct Answer {
  std::string text;
  std::int32_t begin;  // byte offset in the context; the file counts code points
};

struct Question {
  std::string id;
  std::string text;
  std::size_t paragraph;        // index into SquadData::paragraphs
  std::vector<Answer> answers;  // at least one
};

struct Paragraph {
  std::size_t article;  // index into SquadData::titles
  std::string context;
};

struct SquadData {
  std::vector<std::string> titles;
  std::vector<Paragraph> paragraphs;
  std::vector<Question> questions;
};

// Throws std::runtime_error naming the file and the JSON path of what is wrong, also where an answer's text
// does not stand at its position.
SquadData read_squad(const std::filesystem::path& path);

// {training, held out}: the last `held_out_articles` articles are held out. Throws std::invalid_argument if
// there are not more articles than that.
std::pair<SquadData, SquadData> split_by_article(const SquadData& data, std::size_t held_out_articles);

}  // namespace rueda::examples
