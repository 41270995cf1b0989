// SPDX-License-Identifier: Apache-2.0
// Pieces of several writers on one output: what is whole stays whole, and nothing waits for a line end.
#include "launcher/supervisor/line_mixer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace rueda {
namespace {

using namespace std::chrono_literals;

const LineMixer::Time kStart{};

LineMixer with_prefixes(int sources) {
  return LineMixer(sources, [](int source) { return fmt::format("[{}] ", source); });
}

TEST(LineMixer, WholeLinesAreShownAtOnceAndStayWhole) {
  LineMixer mixer = with_prefixes(2);
  mixer.add(0, "a", kStart);
  mixer.add(1, "b1\n\nb2", kStart);
  mixer.add(0, "A\n", kStart);
  EXPECT_EQ(mixer.take(), "[1] b1\n[1] \n[0] aA\n");
}

TEST(LineMixer, TextWithoutAnEndIsShownWhenNothingFollows) {
  LineMixer mixer = with_prefixes(1);
  EXPECT_FALSE(mixer.next_time());
  mixer.add(0, "name", kStart);
  mixer.add(0, "? ", kStart + 100ms);
  EXPECT_EQ(mixer.next_time(), kStart + 100ms + LineMixer::kQuiet);
  mixer.show_due(kStart + 250ms);
  EXPECT_EQ(mixer.take(), "");
  mixer.show_due(*mixer.next_time());
  EXPECT_EQ(mixer.take(), "[0] name? ");
  EXPECT_FALSE(mixer.next_time());
  mixer.add(0, "Bob\nnext\n", kStart + 1s);
  EXPECT_EQ(mixer.take(), "Bob\n[0] next\n") << "the prefix stands there already";
}

TEST(LineMixer, TextThatComesSlowlyIsNotHeldForLong) {
  LineMixer mixer = with_prefixes(1);
  std::string shown;
  for (int i = 0; i < 20; ++i) {
    mixer.add(0, ".", kStart + i * 100ms);
    mixer.show_due(kStart + i * 100ms);
    shown += mixer.take();
  }
  EXPECT_GT(shown.size(), 15U);
  mixer.finish();
  EXPECT_EQ(shown + mixer.take(), "[0] " + std::string(20, '.') + "\n");
}

TEST(LineMixer, TheRestOfALineBehindAWholeBlockIsWaitedFor) {
  LineMixer mixer = with_prefixes(2);
  const std::string block = "a\n" + std::string(LineMixer::kBlock - 2, 'x');
  mixer.add(0, block, kStart);
  mixer.show_due(kStart + 10 * LineMixer::kQuiet);
  mixer.add(1, "b\n", kStart + 10 * LineMixer::kQuiet);
  EXPECT_EQ(mixer.take(), "[0] a\n[1] b\n");
  mixer.add(0, "y\n", kStart + 11 * LineMixer::kQuiet);
  EXPECT_EQ(mixer.take(), "[0] " + block.substr(2) + "y\n");
  mixer.add(0, block, kStart);
  mixer.show_due(kStart + LineMixer::kBlockHold);
  EXPECT_EQ(mixer.take(), "[0] a\n[0] " + block.substr(2));
}

TEST(LineMixer, AnotherSourceBeginsANewLineBehindUnfinishedText) {
  LineMixer mixer = with_prefixes(2);
  mixer.add(0, "name? ", kStart);
  mixer.show_due(kStart + 1s);
  mixer.add(1, "x\n", kStart + 1s);
  mixer.add(0, "Bob\n", kStart + 1s);
  EXPECT_EQ(mixer.take(), "[0] name? \n[1] x\n[0] Bob\n");
  mixer.add(0, "a", kStart);
  mixer.show_due(kStart + 1s);
  mixer.add_own_line("told");
  mixer.add(0, "\n", kStart + 1s);
  EXPECT_EQ(mixer.take(), "[0] a\ntold\n") << "its line has ended already";
}

TEST(LineMixer, ABarOverwritesItself) {
  LineMixer mixer = with_prefixes(1);
  for (const char* update : {"\r 0%", "\r50%", "\r99%\n", "done\n"}) mixer.add(0, update, kStart);
  EXPECT_EQ(mixer.take(), "[0]  0%\r[0] 50%\r[0] 99%\n[0] done\n");
  for (const char* update : {" 0%\r", "50%\r", "99%\r\n"}) mixer.add(0, update, kStart);
  EXPECT_EQ(mixer.take(), "[0]  0%\r[0] 50%\r[0] 99%\r\n");
  mixer.add(0, "\r 0%", kStart);
  mixer.show_due(kStart + 1s);
  EXPECT_EQ(mixer.take(), "[0]  0%") << "also where no update follows";
  mixer.add(0, "\r50%", kStart + 1s);
  mixer.show_due(kStart + 2s);
  EXPECT_EQ(mixer.take(), "\r[0] 50%");
}

TEST(LineMixer, BarsOfSeveralSourcesShareALineAndOtherTextDoesNot) {
  LineMixer mixer = with_prefixes(2);
  for (int update = 0; update < 2; ++update)
    for (int source = 0; source < 2; ++source) {
      mixer.add(source, fmt::format("\r{}/2", update), kStart);
      mixer.show_due(kStart + 1s);
    }
  EXPECT_EQ(mixer.take(), "[0] 0/2\r[1] 0/2\r[0] 1/2\r[1] 1/2");
  mixer.add(0, "\r2/2\n", kStart);
  EXPECT_EQ(mixer.take(), "\n[0] 2/2\n") << "a whole line overwrites nothing of others";
  mixer.add(0, "a\r", kStart);
  mixer.add(1, "line\n", kStart);
  EXPECT_EQ(mixer.take(), "[0] a\r\n[1] line\n");
}

TEST(LineMixer, LinesOfWindowsStayAsTheyAre) {
  LineMixer mixer = with_prefixes(2);
  mixer.add(0, "a\r\n\r\nb\r", kStart);
  mixer.add(0, "\n", kStart);
  EXPECT_EQ(mixer.take(), "[0] a\r\n[0] \r\n[0] b\r\n");
}

TEST(LineMixer, WhatIsTooLongToHoldIsShown) {
  LineMixer mixer = with_prefixes(1);
  const std::string line(LineMixer::kLongestHeld * 3 / 2, 'x');
  mixer.add(0, line, kStart);
  EXPECT_EQ(mixer.take().size(), LineMixer::kLongestHeld + 4);
  mixer.add(0, "\n", kStart);
  EXPECT_EQ(mixer.take(), line.substr(LineMixer::kLongestHeld) + "\n");
}

TEST(LineMixer, ATerminalsBytesAreShownAtOnceAndAsTheyAre) {
  LineMixer mixer = with_prefixes(2);
  mixer.use(LineEnd::both);
  mixer.add_as_it_is(0, "name? ", kStart);
  EXPECT_EQ(mixer.take(), "name? ");
  mixer.show_due(kStart + LineMixer::kLineTime);
  mixer.add(1, "x\n", kStart);
  EXPECT_EQ(mixer.take(), "\r\n[1] x\r\n");
  mixer.add_as_it_is(0, "Bob\r\n", kStart + 1s);
  mixer.add(1, "y\n", kStart + 1s);
  mixer.add_own_line("told");
  EXPECT_EQ(mixer.take(), "Bob\r\n[1] y\r\ntold\r\n");
  mixer.add(1, "part", kStart + 1s);
  mixer.show_due(kStart + 2s);
  mixer.add_as_it_is(0, "z\r\n", kStart + 2s);
  EXPECT_EQ(mixer.take(), "[1] part\r\nz\r\n");
}

TEST(LineMixer, NothingComesIntoASequenceOfATerminal) {
  LineMixer mixer = with_prefixes(2);
  mixer.add_as_it_is(0, "a\r\n\x1b[3", kStart);
  mixer.add(1, "x\n", kStart);
  EXPECT_EQ(mixer.take(), "a\r\n[1] x\n");
  EXPECT_EQ(mixer.next_time(), kStart + LineMixer::kQuiet);
  mixer.add_as_it_is(0, "1mred\xe2\x82", kStart + 1ms);
  EXPECT_EQ(mixer.take(), "\x1b[31mred");
  mixer.show_due(kStart + 1s);
  EXPECT_EQ(mixer.take(), "\xe2\x82") << "its end has not come";
  mixer.add_as_it_is(0, "\x1b[", kStart + 1s);
  mixer.finish();
  EXPECT_EQ(mixer.take(), "\x1b[\n");
}

TEST(LineMixer, ALineOfATerminalMayComeInPieces) {
  LineMixer mixer = with_prefixes(2);
  mixer.add_as_it_is(0, "loss", kStart);
  mixer.add(1, "x\n", kStart);
  mixer.add_own_line("told");
  EXPECT_EQ(mixer.next_time(), kStart + LineMixer::kLineTime);
  mixer.add_as_it_is(0, " 1.5", kStart + 1ms);
  EXPECT_EQ(mixer.take(), "loss 1.5");
  mixer.add_as_it_is(0, "\r\n", kStart + 2ms);
  EXPECT_EQ(mixer.take(), "\r\n[1] x\ntold\n");
  mixer.add_as_it_is(0, "slow", kStart + 1s);
  mixer.add(1, "y\n", kStart + 1s);
  mixer.show_due(kStart + 1s + LineMixer::kLineTime);
  EXPECT_EQ(mixer.take(), "slow\n[1] y\n");
  mixer.add_as_it_is(0, "last", kStart + 2s);
  mixer.add(1, "z\n", kStart + 2s);
  mixer.finish();
  EXPECT_EQ(mixer.take(), "last\n[1] z\n");
}

TEST(LineMixer, BarsOfATerminalAndOfASourceShareALine) {
  LineMixer mixer = with_prefixes(2);
  for (int update = 0; update < 2; ++update) {
    mixer.add_as_it_is(0, fmt::format("\r{}/2", update), kStart);
    mixer.show_due(kStart + 1s);
    mixer.add(1, fmt::format("{}/9\r", update), kStart + 1s);
  }
  EXPECT_EQ(mixer.take(), "\r0/2\r[1] 0/9\r\r1/2\r[1] 1/9\r");
  mixer.add_as_it_is(0, "line\r\n", kStart);
  EXPECT_EQ(mixer.take(), "\nline\r\n");
}

// Random texts, cut at random and shown at random times.
class RandomText {
 public:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(source_);
  }
  std::string text() {
    std::string made;
    while (made.size() < 60) made += std::array{"ab", "c", "\r", "\n", "\r\n", " "}[below(6)];
    return made;
  }

 private:
  std::mt19937 source_{1};
};

TEST(LineMixer, CharactersOfUtf8StayWhole) {
  const std::string euro = "\xe2\x82\xac";
  LineMixer mixer = with_prefixes(2);
  mixer.add(0, "a" + euro.substr(0, 2), kStart);
  mixer.show_due(kStart + LineMixer::kQuiet);
  EXPECT_EQ(mixer.take(), "[0] a");
  mixer.add(0, euro.substr(2) + "b", kStart + LineMixer::kQuiet);
  mixer.show_due(kStart + 2 * LineMixer::kQuiet);
  EXPECT_EQ(mixer.take(), euro + "b");
  // Another rank writes while a character is on its way.
  mixer.add(0, euro.substr(0, 1), kStart + 2 * LineMixer::kQuiet);
  mixer.show_due(kStart + 3 * LineMixer::kQuiet);
  mixer.add(1, "one\n", kStart + 3 * LineMixer::kQuiet);
  mixer.show_due(kStart + 4 * LineMixer::kQuiet);
  mixer.add(0, euro.substr(1) + "\n", kStart + 4 * LineMixer::kQuiet);
  EXPECT_EQ(mixer.take(), "\n[1] one\n[0] " + euro + "\n");
  auto now = kStart + 5 * LineMixer::kQuiet;
  mixer.add(0, "\xe2", now);  // no character
  mixer.show_due(now += LineMixer::kQuiet);
  EXPECT_EQ(mixer.take(), "");
  mixer.show_due(now += LineMixer::kCharacterHold);
  EXPECT_EQ(mixer.take(), "[0] \xe2");
  EXPECT_FALSE(mixer.next_time());
}

TEST(LineMixer, WithoutPrefixesEveryByteComesThroughAsItIs) {
  RandomText random;
  for (int round = 0; round < 300; ++round) {
    LineMixer mixer(1);
    const std::string text = random.text();
    auto now = kStart;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t count = 1 + random.below(9);
      mixer.add(0, std::string_view(text).substr(at, count), now);
      at += count;
      now += random.below(2) * 300ms;
      mixer.show_due(now);
    }
    mixer.finish();
    EXPECT_EQ(mixer.take(), text);
  }
}

// Letters are told apart: each source has its own.
TEST(LineMixer, SourcesNeverShareALineAndLoseNothing) {
  RandomText random;
  for (int round = 0; round < 300; ++round) {
    LineMixer mixer = with_prefixes(3);
    std::array<std::string, 3> written;
    auto now = kStart;
    for (int i = 0; i < 60; ++i) {
      const std::size_t source = random.below(3);
      const char letter = static_cast<char>('a' + source);
      const std::string piece =
          std::array{std::string(1, letter), std::string("\r"), std::string("\n")}[random.below(3)];
      mixer.add(static_cast<int>(source), piece, now);
      if (piece.front() == letter) written[source] += piece;
      now += random.below(2) * 300ms;
      mixer.show_due(now);
    }
    mixer.finish();
    const std::string text = mixer.take();
    EXPECT_TRUE(text.empty() || text.ends_with('\n'));
    std::array<std::string, 3> read;
    int reader = -1;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '[') {
        EXPECT_TRUE(at == 0 || text[at - 1] == '\n' || text[at - 1] == '\r') << text;
        reader = text[at + 1] - '0';
        at += 3;
      } else if (text[at] != '\n' && text[at] != '\r') {
        ASSERT_GE(reader, 0) << text;
        read[static_cast<std::size_t>(reader)] += text[at];
      } else if (text[at] == '\n') {
        reader = -1;
      }
    }
    EXPECT_EQ(read, written) << text;
  }
}

}  // namespace
}  // namespace rueda
