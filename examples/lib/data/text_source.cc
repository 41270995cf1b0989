// SPDX-License-Identifier: Apache-2.0
// Plain text, WikiText and tab-separated reviews, line by line.
#include "examples/lib/data/text_source.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "examples/lib/data/files/line_reader.h"

namespace rueda::examples {
namespace {

constexpr std::string_view kBookBegins = "*** START OF";
constexpr std::string_view kBookEnds = "*** END OF";
constexpr std::string_view kLeftOut = "<unk>";
constexpr std::size_t kMostParagraph = 1 << 20;  // bytes; text without empty lines goes on in a new paragraph

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? std::string_view{}
                            : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool has_book_marks(const std::filesystem::path& path) {
  BadItems told_later;
  LineReader lines(path, &told_later);
  for (std::string_view line; lines.next(line);)
    if (line.starts_with(kBookBegins)) return true;
  return false;
}

// `inside`: whether a book's text begins with the file.
void read_plain(LineReader& lines, const TextSink& sink, bool inside) {
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) sink.paragraph(paragraph);
    paragraph.clear();
  };
  for (std::string_view line; lines.next(line);) {
    const bool begins = line.starts_with(kBookBegins);
    if (begins || line.starts_with(kBookEnds)) {
      end_paragraph();
      sink.document_ends();
      inside = begins;
      continue;
    }
    if (!inside) continue;
    const std::string_view words = trimmed(line);
    if (words.empty() || paragraph.size() > kMostParagraph) end_paragraph();
    if (words.empty()) continue;
    if (!paragraph.empty()) paragraph += ' ';
    paragraph += words;
  }
  end_paragraph();
  sink.document_ends();
}

// How deep a heading of WikiText is, 1 for an article's name; 0: no heading.
int heading_depth(std::string_view line) {
  std::string_view words = trimmed(line);
  int depth = 0;
  while (words.starts_with("= ") && words.ends_with(" =") && words.size() > 4) {
    words = words.substr(2, words.size() - 4);
    ++depth;
  }
  return depth;
}

void read_wikitext(LineReader& lines, const TextSink& sink) {
  std::string text;
  for (std::string_view line; lines.next(line);) {
    if (const int depth = heading_depth(line)) {
      if (depth == 1) sink.document_ends();
      continue;
    }
    text = trimmed(line);
    for (std::size_t at = text.find(kLeftOut); at != text.npos; at = text.find(kLeftOut, at))
      text.replace(at, kLeftOut.size(), "[UNK]");
    if (!text.empty()) sink.paragraph(text);
  }
  sink.document_ends();
}

void read_reviews(LineReader& lines, const TextSink& sink, BadItems& bad) {
  for (std::string_view line; lines.next(line);) {
    if (trimmed(line).empty()) continue;
    const std::size_t tab = line.rfind('\t');
    if (tab == line.npos) {
      bad.add(fmt::format("{}: a text, a tab and a label are needed, there is no tab", lines.source()));
      continue;
    }
    if (lines.number() == 1 && line.substr(tab + 1) == "label") continue;
    sink.paragraph(line.substr(0, tab));
  }
}

}  // namespace

const char* name_of(TextFormat format) {
  switch (format) {
    case TextFormat::plain: return "plain text";
    case TextFormat::wikitext: return "WikiText";
    case TextFormat::reviews: return "tab-separated reviews";
  }
  throw std::logic_error("no such text format");
}

TextFormat text_format(const std::filesystem::path& path) {
  constexpr std::size_t kLooked = 50;
  // Its beginning is read again and again: for its kind, and for a book's marks.
  if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path))
    throw std::runtime_error(
        fmt::format("{} is not a file that can be read twice; save it in one", path.string()));
  if (path.extension() == ".tsv") return TextFormat::reviews;
  std::size_t looked = 0, with_tab = 0;
  BadItems told_later;
  LineReader lines(path, &told_later);
  for (std::string_view line; looked < kLooked && lines.next(line);) {
    if (trimmed(line).empty()) continue;
    if (heading_depth(line) > 0) return TextFormat::wikitext;
    ++looked;
    if (line.find('\t', 1) != line.npos) ++with_tab;
  }
  return looked > 0 && with_tab == looked ? TextFormat::reviews : TextFormat::plain;
}

BadItems read_paragraphs(const std::filesystem::path& path, TextFormat format, const TextSink& sink) {
  BadItems bad;
  LineReader lines(path, &bad);
  switch (format) {
    case TextFormat::plain: read_plain(lines, sink, /*inside=*/!has_book_marks(path)); break;
    case TextFormat::wikitext: read_wikitext(lines, sink); break;
    case TextFormat::reviews: read_reviews(lines, sink, bad); break;
  }
  return bad;
}

}  // namespace rueda::examples
