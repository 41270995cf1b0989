// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/control_sequences.h"

#include <algorithm>

namespace rueda {
namespace {

constexpr char kEscape = '\x1b', kBell = '\x07', kCancel = '\x18', kSubstitute = '\x1a';

// The length of `text` up to the first byte from `from` on that `ends` accepts. 0 if there is none.
template <class Ends>
std::size_t length_to(std::string_view text, std::size_t from, Ends ends) {
  const auto end = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), ends);
  return end == text.end() ? 0 : static_cast<std::size_t>(end - text.begin()) + 1;
}

bool cancels(char byte) { return byte == kCancel || byte == kSubstitute; }

// ESC ] TEXT BEL, or ESC P TEXT ESC \ and its like.
std::size_t string_length(std::string_view text) {
  const std::size_t length =
      length_to(text, 2, [](char byte) { return byte == kBell || byte == kEscape || cancels(byte); });
  if (length == 0 || text[length - 1] != kEscape) return length;
  return text.size() > length ? length + 1 : 0;
}

std::size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 0;
  const auto is_final = [](char byte) { return byte >= '@' && byte <= '~'; };
  switch (text[1]) {
    case '[': return length_to(text, 2, [&](char byte) { return is_final(byte) || cancels(byte); });
    case ']':
    case 'P':
    case 'X':
    case '^':
    case '_': return string_length(text);
    default: return length_to(text, 1, [](char byte) { return byte < ' ' || byte > '/'; });
  }
}

std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return 0;
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return i;  // no UTF-8
  }
  return length;
}

}  // namespace

std::size_t sequence_length(std::string_view text) {
  return text.front() == kEscape ? escape_length(text) : character_length(text);
}

std::size_t whole_sequences(std::string_view text) {
  std::size_t whole = 0;
  while (whole < text.size()) {
    const std::size_t length = sequence_length(text.substr(whole));
    if (length == 0) return text.size() - whole > kLongestSequence ? text.size() : whole;
    whole += length;
  }
  return whole;
}

}  // namespace rueda
