// SPDX-License-Identifier: Apache-2.0
// Ends of control sequences and of characters.
#include "launcher/supervisor/control_sequences.h"

#include <gtest/gtest.h>

#include <string>

namespace rueda {
namespace {

TEST(ControlSequences, EndWithTheirLastByte) {
  using namespace std::string_literals;
  for (const std::string& sequence :
       {"\x1b[0m"s, "\x1b[38;5;1m"s, "\x1b[?25h"s, "\x1b[A"s,
        "\x1b"
        "c"s,
        "\x1b(B"s, "\x1b]0;title\x07"s, "\x1b]8;;http://a\x1b\\"s, "\x1bPq~~\x1b\\"s, "\xc3\xa9"s,
        "\xe2\x96\x88"s, "\xf0\x9f\x98\x80"s, "a"s, "\r"s}) {
    EXPECT_EQ(sequence_length(sequence + "x"), sequence.size()) << sequence;
    for (std::size_t length = 1; length < sequence.size(); ++length) {
      EXPECT_EQ(sequence_length(std::string_view(sequence).substr(0, length)), 0U) << sequence << length;
      EXPECT_EQ(whole_sequences("ab" + sequence.substr(0, length)), 2U);
    }
    EXPECT_EQ(whole_sequences("ab" + sequence + "c"), sequence.size() + 3);
  }
}

TEST(ControlSequences, BytesThatAreNoCharacterHaveAnEnd) {
  EXPECT_EQ(whole_sequences("\xe2\x28\xff"), 2U) << "the last byte may begin a character";
  EXPECT_EQ(whole_sequences("\x80\x80"), 2U);
  EXPECT_EQ(whole_sequences("\x1b[12\x18zz"), 7U) << "cancelled";
}

TEST(ControlSequences, NobodyWaitsForTheEndOfALongOne) {
  const std::string image = "\x1bPq" + std::string(kLongestSequence, 'x');
  EXPECT_EQ(whole_sequences(image), image.size());
  EXPECT_EQ(whole_sequences(image.substr(0, 100)), 0U);
}

}  // namespace
}  // namespace rueda
