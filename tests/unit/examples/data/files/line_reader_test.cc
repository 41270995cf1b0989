// SPDX-License-Identifier: Apache-2.0
// Lines of files with and without compression, and what is said of broken ones.
#include "examples/lib/data/files/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/gzip_text.h"
#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> lines_of(const std::filesystem::path& path,
                                  std::size_t most = LineReader::kMostBytes) {
  std::vector<std::string> found;
  LineReader lines(path, nullptr, most);
  for (std::string_view line; lines.next(line);) found.emplace_back(line);
  return found;
}

class Lines : public testing::Test {
 protected:
  ScratchFolder scratch_;
};

TEST_F(Lines, EndAsFilesDo) {
  EXPECT_THAT(lines_of(scratch_.write("a", "one\r\n\ntwo\nthree")), ElementsAre("one", "", "two", "three"));
  EXPECT_THAT(lines_of(scratch_.write("b", "\xEF\xBB\xBFone\n")), ElementsAre("one"));
  EXPECT_THAT(lines_of(scratch_.write("c", "")), IsEmpty());
  EXPECT_THAT(lines_of(scratch_.write("d", "\n")), ElementsAre(""));
}

TEST_F(Lines, LongerThanAnyBlockComeWhole) {
  const std::string first(1 << 20, 'a'), second(3 << 19, 'b');
  const std::string text = first + "\n" + second + "\n" + first;
  EXPECT_THAT(lines_of(scratch_.write("long", text)), ElementsAre(first, second, first));
  EXPECT_THAT(lines_of(scratch_.write("long.gz", gzip_text(text))), ElementsAre(first, second, first));
}

TEST_F(Lines, AreDecompressedWhateverTheName) {
  const std::string parts = gzip_text("one\ntwo\n") + gzip_text("three\n");
  EXPECT_THAT(lines_of(scratch_.write("any.jsonl", parts)), ElementsAre("one", "two", "three"));
}

TEST_F(Lines, NumberAndSource) {
  const auto path = scratch_.write("a", "one\ntwo\n");
  LineReader lines(path);
  std::string_view line;
  ASSERT_TRUE(lines.next(line) && lines.next(line));
  EXPECT_EQ(lines.number(), 2U);
  EXPECT_EQ(lines.source(), path.string() + ":2");
}

TEST_F(Lines, BrokenFilesAreNamed) {
  const auto error = [&](const std::string& name, const std::string& text) {
    const auto path = scratch_.write(name, text);
    return error_message([&] { lines_of(path, 1 << 20); });
  };
  const std::string file = (scratch_.path() / "a").string();
  EXPECT_THAT(error_message([&] { lines_of(scratch_.path() / "none"); }), HasSubstr("none: No such file"));
  EXPECT_THAT(error_message([&] { lines_of(scratch_.path()); }), HasSubstr("Is a directory"));
  EXPECT_THAT(error("a", "one\n\xFFtwo\n"), HasSubstr(file + ":2: not valid UTF-8 (byte 0xff)"));
  EXPECT_THAT(error("a", "one\n" + std::string(3 << 19, 'b')), HasSubstr(file + ":2: a line of more than"));

  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i * 7919) + "\n";
  std::string packed = gzip_text(text);
  EXPECT_THAT(error("a", packed.substr(0, packed.size() / 2)), HasSubstr("ends too early"));
  EXPECT_THAT(error("a", packed.substr(0, packed.size() - 3)), HasSubstr("ends too early"));
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
  EXPECT_THAT(error("a", packed), HasSubstr("the gzip file is damaged"));
}

TEST_F(Lines, ThatAreNoTextMayBeLeftOut) {
  const auto path = scratch_.write("a", "one\n\xFFtwo\nthree\n\xC3");
  BadItems bad;
  LineReader lines(path, &bad);
  std::vector<std::string> found;
  for (std::string_view line; lines.next(line);) found.push_back(lines.source() + " " + std::string(line));
  EXPECT_THAT(found, ElementsAre(path.string() + ":1 one", path.string() + ":3 three"));
  EXPECT_THAT(bad.words("F"), ElementsAre("F: 2 bad items left out:",
                                          HasSubstr(path.string() + ":2: not valid UTF-8 (byte 0xff)"),
                                          HasSubstr(path.string() + ":4: not valid UTF-8 (byte 0xc3)")));
}

}  // namespace
}  // namespace rueda::examples
