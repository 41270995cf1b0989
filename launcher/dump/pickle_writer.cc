// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/pickle_writer.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace rueda {
namespace {

// Of pickle's machine.
constexpr char kProtocol = '\x80', kStop = '.', kMark = '(';
constexpr char kNone = 'N', kTrue = '\x88', kFalse = '\x89', kInt = 'J', kLong = '\x8a', kFloat = 'G';
constexpr char kText = 'X', kEmptyDictionary = '}', kSetItems = 'u', kEmptyList = ']', kAppends = 'e';
constexpr char kTuple = 't';

void append_little(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

// How many bytes the character at the beginning of `text` has; 0: it is none.
std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool is_too_long = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool is_surrogate = byte(0) == 0xed && byte(1) > 0x9f;
  const bool is_too_large = byte(0) == 0xf4 && byte(1) > 0x8f;
  return is_too_long || is_surrogate || is_too_large ? 0 : length;
}

}  // namespace

PickleWriter::PickleWriter() : bytes_{kProtocol, 2} {}

void PickleWriter::put_none() { bytes_ += kNone; }

void PickleWriter::put(bool value) { bytes_ += value ? kTrue : kFalse; }

void PickleWriter::put(std::int64_t value) {
  using Int = std::numeric_limits<std::int32_t>;
  const bool is_short = value >= Int::min() && value <= Int::max();
  bytes_ += is_short ? kInt : kLong;
  if (!is_short) bytes_ += 8;
  append_little(bytes_, static_cast<std::uint64_t>(value), is_short ? 4 : 8);
}

void PickleWriter::put(double value) {
  bytes_ += kFloat;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i) bytes_ += static_cast<char>(bits >> (8 * i) & 0xff);
}

void PickleWriter::put(std::string_view text) {
  const std::string valid = valid_utf8(text);
  bytes_ += kText;
  append_little(bytes_, valid.size(), 4);
  bytes_ += valid;
}

void PickleWriter::begin_dictionary() { bytes_ += {kEmptyDictionary, kMark}; }
void PickleWriter::end_dictionary() { bytes_ += kSetItems; }
void PickleWriter::begin_list() { bytes_ += {kEmptyList, kMark}; }
void PickleWriter::end_list() { bytes_ += kAppends; }
void PickleWriter::begin_tuple() { bytes_ += kMark; }
void PickleWriter::end_tuple() { bytes_ += kTuple; }

std::string PickleWriter::take() {
  bytes_ += kStop;
  return std::exchange(bytes_, {kProtocol, 2});
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = length_of_character(text);
    if (length == 0)
      valid += '?';
    else
      valid += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return valid;
}

}  // namespace rueda
