// SPDX-License-Identifier: Apache-2.0
// Paragraphs to sentences, and how windows are filled with these.
#include "examples/lib/data/text_windows.h"

#include <fmt/format.h>
#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/utext.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "examples/lib/data/batches.h"
#include "examples/lib/data/text_source.h"

namespace rueda::examples {
namespace {

// Sentences by Unicode's rules, in one language for all, as the cut must not depend on the machine's
// settings.
class SentenceSplitter {
 public:
  SentenceSplitter() {
    UErrorCode status = U_ZERO_ERROR;
    breaks_.reset(icu::BreakIterator::createSentenceInstance(icu::Locale::getRoot(), status));
    check(status);
  }

  template <class Take>
  void split(std::string_view paragraph, Take take) {
    UErrorCode status = U_ZERO_ERROR;
    const std::unique_ptr<UText, decltype(&utext_close)> text(
        utext_openUTF8(nullptr, paragraph.data(), static_cast<std::int64_t>(paragraph.size()), &status),
        &utext_close);
    check(status);
    breaks_->setText(text.get(), status);
    check(status);
    std::int32_t begin = breaks_->first();
    for (std::int32_t end = breaks_->next(); end != icu::BreakIterator::DONE; end = breaks_->next()) {
      take(paragraph.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
      begin = end;
    }
  }

 private:
  static void check(UErrorCode status) {
    if (U_FAILURE(status)) throw std::runtime_error(fmt::format("ICU: {}", u_errorName(status)));
  }

  std::unique_ptr<icu::BreakIterator> breaks_;
};

// Fills windows with sentences and gives them to the sink when they are full.
class WindowPacker {
 public:
  WindowPacker(const WordPieceTokenizer& tokenizer, std::int32_t max_length, const WindowSink& sink)
      : tokenizer_(tokenizer), room_(static_cast<std::size_t>(max_length - kTokensAroundText)), sink_(sink) {}

  void paragraph(std::string_view text) {
    splitter_.split(text, [this](std::string_view one) { sentence(one); });
  }

  // Makes a window of this text alone, cut to the room of a window.
  void whole(std::string_view text) {
    append(tokens_of(text));
    if (pending_.size() > room_) pending_.resize(room_);
    close();
  }

  void close() {
    if (pending_.empty()) return;
    emit(pending_);
    pending_.clear();
  }

  std::size_t windows() const { return windows_; }

 private:
  using Tokens = std::vector<WordPieceTokenizer::Token>;

  Tokens tokens_of(std::string_view text) const { return tokenizer_.tokenize(text); }

  void append(const Tokens& tokens) {
    for (const auto& token : tokens) pending_.push_back(token.id);
  }

  void sentence(std::string_view text) {
    const Tokens tokens = tokens_of(text);
    if (pending_.size() + tokens.size() > room_) close();
    append(tokens);
    std::size_t given = 0;
    for (; pending_.size() - given > room_; given += room_) emit(std::span(pending_).subspan(given, room_));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(given));
  }

  void emit(std::span<const std::int32_t> text) {
    window_.assign(1, tokenizer_.cls_id());
    window_.insert(window_.end(), text.begin(), text.end());
    window_.push_back(tokenizer_.sep_id());
    sink_(window_);
    ++windows_;
  }

  const WordPieceTokenizer& tokenizer_;
  std::size_t room_;
  const WindowSink& sink_;
  SentenceSplitter splitter_;
  std::vector<std::int32_t> pending_;
  std::vector<std::int32_t> window_;
  std::size_t windows_ = 0;
};

}  // namespace

BadItems read_text_windows(const std::filesystem::path& path, const WordPieceTokenizer& tokenizer,
                           std::int32_t max_length, const WindowSink& sink) {
  if (max_length <= kTokensAroundText) {
    throw std::invalid_argument(
        fmt::format("max_length is {}; beside [CLS] and [SEP] a window needs room for text: at least {}",
                    max_length, kTokensAroundText + 1));
  }
  WindowPacker packer(tokenizer, max_length, sink);
  const TextFormat format = text_format(path);
  const bool by_line = format == TextFormat::reviews;
  BadItems bad =
      read_paragraphs(path, format,
                      {[&](std::string_view text) { by_line ? packer.whole(text) : packer.paragraph(text); },
                       [&] { packer.close(); }});
  packer.close();
  if (packer.windows() + bad.count() == 0) {
    throw std::runtime_error(
        fmt::format("{}: there is no text in it (read as {})", path.string(), name_of(format)));
  }
  return bad;
}

std::vector<TextWindow> read_text_windows(const std::filesystem::path& path,
                                          const WordPieceTokenizer& tokenizer, std::int32_t max_length) {
  std::vector<TextWindow> windows;
  const auto keep = [&windows](std::span<const std::int32_t> ids) {
    windows.push_back({{ids.begin(), ids.end()}});
  };
  read_text_windows(path, tokenizer, max_length, keep).refuse_any(path.string());
  return windows;
}

TextCorpus TextCorpus::open(const std::filesystem::path& path, const WordPieceTokenizer& tokenizer,
                            std::int32_t max_length, const TokenCache& cache, OnBadItems on_bad) {
  const TokenCache::Key key{path, "windows", fmt::format("max_length {}", max_length)};
  return TextCorpus(ItemCache::open(key, tokenizer, cache, on_bad, [&](RecordWriter& writer) {
    return read_text_windows(path, tokenizer, max_length,
                             [&](std::span<const std::int32_t> ids) { writer.append(ids); });
  }));
}

std::vector<std::size_t> subset(std::size_t count, double share, std::uint64_t seed) {
  if (!(share > 0 && share <= 1)) {
    throw std::invalid_argument(
        fmt::format("a share of {} was asked for; it must be greater than 0 and at most 1", share));
  }
  std::vector<std::size_t> chosen = shuffled(count, seed);
  const auto wanted = static_cast<std::size_t>(std::llround(share * static_cast<double>(count)));
  chosen.resize(std::min(count, std::max<std::size_t>(wanted, 1)));
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace rueda::examples
