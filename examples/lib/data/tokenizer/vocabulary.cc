// SPDX-License-Identifier: Apache-2.0
// Joining the most frequent neighbours, with counts kept up to date in a heap.
#include "examples/lib/data/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <queue>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "examples/lib/data/tokenizer/text_normalizer.h"
#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {
namespace {

constexpr std::array<std::string_view, 5> kFirstTokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr std::string_view kContinues = "##";

// Purpose: the tokens so far, and all words cut into them. Used by one thread during one training.
class PieceJoiner {
 public:
  PieceJoiner(const WordCounts& words, const VocabularySettings& settings) : settings_(settings) {
    for (const std::string_view token : kFirstTokens) id_of(std::string(token));
    add_characters(alphabet_of(words), words);
    for (const auto& [word, count] : words.counts()) add_word(word, count);
    for (const auto& [pair, joint] : pairs_) queue_.push({joint.count, pair});
  }

  std::vector<std::string> run() {
    while (tokens_.size() < settings_.size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(best.pair);
      if (found == pairs_.end() || found->second.count == 0) continue;
      if (found->second.count != best.count) {  // fewer by now than when it was queued
        queue_.push({found->second.count, best.pair});
        continue;
      }
      if (best.count < settings_.min_count) break;
      join(best.pair);
    }
    return std::move(tokens_);
  }

 private:
  using Pair = std::pair<std::int32_t, std::int32_t>;

  struct PairHash {
    std::size_t operator()(const Pair& pair) const {
      const auto both = std::uint64_t{static_cast<std::uint32_t>(pair.first)} << 32 |
                        static_cast<std::uint32_t>(pair.second);
      return std::hash<std::uint64_t>{}(both);
    }
  };

  struct Word {
    std::vector<std::int32_t> pieces;
    std::uint64_t count;
  };

  struct Joint {
    std::uint64_t count = 0;
    std::set<std::size_t> words;  // where the pair occurs, or did
  };

  struct Candidate {
    std::uint64_t count;
    Pair pair;
    // The heap's top is the greatest: many, and then low ids.
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  std::int32_t id_of(const std::string& token) {
    const auto [entry, added] = ids_.emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (added) tokens_.push_back(token);
    return entry->second;
  }

  std::set<char32_t> alphabet_of(const WordCounts& words) const {
    std::map<char32_t, std::uint64_t> counts;
    for (const auto& [word, count] : words.counts())
      for (const char32_t character : word) counts[character] += count;
    std::vector<std::pair<char32_t, std::uint64_t>> order(counts.begin(), counts.end());
    std::ranges::stable_sort(order, std::ranges::greater{}, &std::pair<char32_t, std::uint64_t>::second);
    if (order.size() > settings_.alphabet) order.resize(settings_.alphabet);
    std::set<char32_t> alphabet;
    for (const auto& [character, count] : order) alphabet.insert(character);
    return alphabet;
  }

  void add_characters(const std::set<char32_t>& alphabet, const WordCounts& words) {
    std::set<char32_t> inside;
    for (const auto& [word, count] : words.counts())
      if (word.size() > 1) inside.insert(word.begin(), word.end());
    for (const char32_t character : alphabet) id_of(utf8_of(character));
    for (const char32_t character : alphabet)
      if (inside.contains(character)) id_of(std::string(kContinues) + utf8_of(character));
    if (tokens_.size() == kFirstTokens.size())
      throw std::invalid_argument("there is no word to make a vocabulary of");
    if (tokens_.size() > settings_.size) {
      throw std::invalid_argument(
          fmt::format("a vocabulary of {} has no room for the {} special tokens and characters; ask for "
                      "more, or for a smaller alphabet",
                      settings_.size, tokens_.size()));
    }
  }

  void add_word(const std::u32string& text, std::uint64_t count) {
    Word word{{}, count};
    for (const char32_t character : text) {
      const auto found = ids_.find(std::string(word.pieces.empty() ? "" : kContinues) + utf8_of(character));
      if (found == ids_.end()) return;  // not of the alphabet: the word will be [UNK]
      word.pieces.push_back(found->second);
    }
    if (word.pieces.size() < 2) return;
    words_.push_back(std::move(word));
    count_pairs(words_.size() - 1);
  }

  void count_pairs(std::size_t index) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i) {
      Joint& joint = pairs_[{word.pieces[i], word.pieces[i + 1]}];
      joint.count += word.count;
      joint.words.insert(index);
    }
  }

  void join(const Pair& pair) {
    const std::string& second = tokens_[static_cast<std::size_t>(pair.second)];
    const std::int32_t joined =
        id_of(tokens_[static_cast<std::size_t>(pair.first)] + second.substr(kContinues.size()));
    const std::set<std::size_t> changed = std::exchange(pairs_[pair].words, {});
    std::set<Pair> grown;  // pairs that are more frequent than the queue knows
    for (const std::size_t index : changed) {
      Word& word = words_[index];
      for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i)
        pairs_[{word.pieces[i], word.pieces[i + 1]}].count -= word.count;
      std::vector<std::int32_t> pieces;
      for (std::size_t i = 0; i < word.pieces.size(); ++i) {
        const bool both = i + 1 < word.pieces.size() && Pair{word.pieces[i], word.pieces[i + 1]} == pair;
        pieces.push_back(both ? joined : word.pieces[i]);
        if (both) ++i;
      }
      word.pieces = std::move(pieces);
      count_pairs(index);
      for (std::size_t i = 0; i + 1 < word.pieces.size(); ++i)
        if (word.pieces[i] == joined || word.pieces[i + 1] == joined)
          grown.insert({word.pieces[i], word.pieces[i + 1]});
    }
    for (const Pair& one : grown) queue_.push({pairs_[one].count, one});
  }

  static std::string utf8_of(char32_t character) {
    std::string text;
    append_utf8(character, text);
    return text;
  }

  VocabularySettings settings_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, Joint, PairHash> pairs_;
  std::priority_queue<Candidate> queue_;  // of each pair at least one with a count that is not too low
};

}  // namespace

void WordCounts::add(std::string_view utf8) {
  std::string text(utf8);
  for (const std::string_view special : kFirstTokens)
    for (std::size_t at = text.find(special); at != text.npos; at = text.find(special, at))
      text.replace(at, special.size(), " ");
  const std::vector<NormalizedCharacter> characters = normalize_for_bert(text, normalizer_);
  for (const auto word : split_words(characters)) {
    if (word.size() > WordPieceTokenizer::kMostCharactersPerWord) continue;
    std::u32string letters;
    for (const NormalizedCharacter& character : word) letters.push_back(character.value);
    ++counts_[std::move(letters)];
  }
}

std::vector<std::string> train_vocabulary(const WordCounts& words, const VocabularySettings& settings) {
  return PieceJoiner(words, settings).run();
}

}  // namespace rueda::examples
