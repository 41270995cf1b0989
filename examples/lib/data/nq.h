// SPDX-License-Identifier: Apache-2.0
// Reading Natural Questions: the simplified form, a JSON object a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::examples {

// In the order of the model's logits (kAnswerTypes).
enum class AnswerType : std::uint8_t { short_answer, long_answer, yes, no, unknown };

// Words begin .. end - 1 of a document; none if end <= begin.
struct NqSpan {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  bool empty() const { return end <= begin; }
  friend bool operator==(const NqSpan&, const NqSpan&) = default;
};

// The answer of one person.
struct NqAnnotation {
  AnswerType type = AnswerType::unknown;
  // Of a short answer: from the first one's first word to the last one's last, as several may be given. Of
  // the other types: the long answer's.
  NqSpan span;
};

struct NqExample {
  std::string id;
  std::string question;
  std::string document;  // words and HTML tags, a space between each two
  std::vector<NqAnnotation> annotations;
};

// Throws std::runtime_error "SOURCE: WHERE: WHAT", also where an answer does not stand in the document.
NqExample parse_nq(std::string_view line, const std::string& source);

// The words of a document, as the file counts them; views into it.
std::vector<std::string_view> document_words(std::string_view document);

bool is_html_tag(std::string_view word);

}  // namespace rueda::examples
