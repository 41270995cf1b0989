// SPDX-License-Identifier: Apache-2.0
// BERT's text clean-up in the variant that Hugging Face's tokenizers library runs, on top of ICU.
#include "examples/lib/data/tokenizer/text_normalizer.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace rueda::examples {
namespace {

// The tables that vocabularies were made with, and that Hugging Face still uses, are those of Unicode 8: it
// takes characters added later for unassigned, which are neither control, nor accent, nor punctuation.
constexpr int kUnicodeVersion = 8;

// General category in Unicode 8. Some characters have moved to another category since.
int category(UChar32 character) {
  switch (character) {
    case 0x166D:
    case 0x111C9: return U_OTHER_PUNCTUATION;
    case 0x1734: return U_NON_SPACING_MARK;
    case 0x1885:
    case 0x1886: return U_OTHER_LETTER;
    case 0xA9BD: return U_COMBINING_SPACING_MARK;
    default: break;
  }
  const int category = u_charType(character);
  if (character < 0x80 || category == U_UNASSIGNED) return category;
  UVersionInfo age;
  u_charAge(character, age);
  return age[0] > kUnicodeVersion ? int{U_UNASSIGNED} : category;
}

bool is_dropped(UChar32 character) {
  if (character == 0 || character == 0xFFFD) return true;
  if (character == '\t' || character == '\n' || character == '\r') return false;
  switch (category(character)) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_PRIVATE_USE_CHAR:
    case U_SURROGATE: return true;
    default: return false;
  }
}

bool is_cjk_ideograph(UChar32 character) {
  struct Range {
    UChar32 first, last;
  };
  // Of the last but one block BERT's own code leaves out the start; so do we.
  constexpr std::array<Range, 8> kRanges = {{{0x4E00, 0x9FFF},
                                             {0x3400, 0x4DBF},
                                             {0x20000, 0x2A6DF},
                                             {0x2A700, 0x2B73F},
                                             {0x2B740, 0x2B81F},
                                             {0x2B920, 0x2CEAF},
                                             {0xF900, 0xFAFF},
                                             {0x2F800, 0x2FA1F}}};
  if (character < 0x3400) return false;
  return std::any_of(kRanges.begin(), kRanges.end(), [character](const Range& range) {
    return character >= range.first && character <= range.last;
  });
}

// ASCII symbols such as $ and ^ count as punctuation although Unicode files them elsewhere.
bool is_punctuation(char32_t value) {
  if (value < 0x80)
    return (value >= 33 && value <= 47) || (value >= 58 && value <= 64) || (value >= 91 && value <= 96) ||
           (value >= 123 && value <= 126);
  switch (category(static_cast<UChar32>(value))) {
    case U_CONNECTOR_PUNCTUATION:
    case U_DASH_PUNCTUATION:
    case U_START_PUNCTUATION:
    case U_END_PUNCTUATION:
    case U_INITIAL_PUNCTUATION:
    case U_FINAL_PUNCTUATION:
    case U_OTHER_PUNCTUATION: return true;
    default: return false;
  }
}

// The characters of the text, cleaned and with ideographs set apart where the settings say so.
std::vector<NormalizedCharacter> characters_of(std::string_view utf8, const NormalizerSettings& settings) {
  std::vector<NormalizedCharacter> characters;
  characters.reserve(utf8.size());
  const auto length = static_cast<std::int32_t>(utf8.size());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(utf8.data());
  for (std::int32_t position = 0; position < length;) {
    const std::int32_t begin = position;
    UChar32 character;
    U8_NEXT(bytes, position, length, character);
    if (character < 0 || (settings.clean_text && is_dropped(character))) continue;
    const bool as_space = settings.clean_text && u_isUWhiteSpace(character);
    const auto value = static_cast<char32_t>(as_space ? ' ' : character);
    const bool spaced = settings.separate_ideographs && is_cjk_ideograph(character);
    if (spaced) characters.push_back({U' ', begin, begin});
    characters.push_back({value, begin, position});
    if (spaced) characters.push_back({U' ', position, position});
  }
  return characters;
}

// Marks that follow one another are put in Unicode's canonical order, equal classes staying as they are.
void reorder_marks(std::vector<NormalizedCharacter>& text) {
  const auto combining_class = [](const NormalizedCharacter& character) {
    return character.value < 0x300 ? 0 : u_getCombiningClass(static_cast<UChar32>(character.value));
  };
  for (auto position = text.begin(); position != text.end();) {
    if (combining_class(*position) == 0) {
      ++position;
      continue;
    }
    const auto last =
        std::find_if(position, text.end(), [&](const auto& it) { return combining_class(it) == 0; });
    std::stable_sort(position, last,
                     [&](const auto& a, const auto& b) { return combining_class(a) < combining_class(b); });
    position = last;
  }
}

// Canonical decomposition (NFD).
std::vector<NormalizedCharacter> decompose(const std::vector<NormalizedCharacter>& text) {
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* normalizer = unorm2_getNFDInstance(&status);
  if (U_FAILURE(status))
    throw std::runtime_error(fmt::format("ICU has no NFD data: {}", u_errorName(status)));
  std::vector<NormalizedCharacter> decomposed;
  decomposed.reserve(text.size());
  std::array<UChar, 32> buffer;  // the longest decomposition has 4 units
  for (const NormalizedCharacter& character : text) {
    const auto value = static_cast<UChar32>(character.value);
    std::int32_t length = -1;
    if (value >= 0xC0 && category(value) != U_UNASSIGNED)
      length = unorm2_getDecomposition(normalizer, value, buffer.data(), buffer.size(), &status);
    if (length < 0) decomposed.push_back(character);
    for (std::int32_t position = 0; position < length;) {
      UChar32 part;
      U16_NEXT(buffer.data(), position, length, part);
      decomposed.push_back({static_cast<char32_t>(part), character.begin, character.end});
    }
  }
  reorder_marks(decomposed);
  return decomposed;
}

// Each character by itself, whatever stands around a sigma. One has a lower case of two characters.
std::vector<NormalizedCharacter> lower(std::span<const NormalizedCharacter> text) {
  constexpr char32_t kDottedCapitalI = 0x130, kDotAbove = 0x307;
  std::vector<NormalizedCharacter> lowered;
  lowered.reserve(text.size());
  for (const NormalizedCharacter& character : text) {
    const bool dotted = character.value == kDottedCapitalI;
    const auto value = dotted ? UChar32{'i'} : u_tolower(static_cast<UChar32>(character.value));
    lowered.push_back({static_cast<char32_t>(value), character.begin, character.end});
    if (dotted) lowered.push_back({kDotAbove, character.begin, character.end});
  }
  return lowered;
}

}  // namespace

std::vector<NormalizedCharacter> normalize_for_bert(std::string_view utf8,
                                                    const NormalizerSettings& settings) {
  std::vector<NormalizedCharacter> text = characters_of(utf8, settings);
  if (settings.strips_accents()) {
    text = decompose(text);
    std::erase_if(text, [](const NormalizedCharacter& character) {
      return character.value >= 0x300 &&
             category(static_cast<UChar32>(character.value)) == U_NON_SPACING_MARK;
    });
  }
  return settings.lower_case ? lower(text) : text;
}

bool is_white_space(char32_t value) { return u_isUWhiteSpace(static_cast<UChar32>(value)) != 0; }

std::vector<std::span<const NormalizedCharacter>> split_words(std::span<const NormalizedCharacter> text) {
  std::vector<std::span<const NormalizedCharacter>> words;
  std::size_t begin = 0;
  const auto end_word = [&](std::size_t end) {
    if (end > begin) words.push_back(text.subspan(begin, end - begin));
    begin = end + 1;
  };
  for (std::size_t position = 0; position < text.size(); ++position) {
    const bool punctuation = is_punctuation(text[position].value);
    if (text[position].value == U' ' || punctuation || is_white_space(text[position].value))
      end_word(position);
    if (punctuation) words.push_back(text.subspan(position, 1));
  }
  end_word(text.size());
  return words;
}

void append_utf8(char32_t value, std::string& text) {
  const auto byte = [&text](char32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (value < 0x80) return byte(value);
  if (value < 0x800) return byte(0xC0 | (value >> 6)), byte(0x80 | (value & 0x3F));
  if (value < 0x10000) {
    byte(0xE0 | (value >> 12));
  } else {
    byte(0xF0 | (value >> 18));
    byte(0x80 | ((value >> 12) & 0x3F));
  }
  byte(0x80 | ((value >> 6) & 0x3F));
  byte(0x80 | (value & 0x3F));
}

}  // namespace rueda::examples
