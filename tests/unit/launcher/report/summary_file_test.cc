// SPDX-License-Identifier: Apache-2.0
// A file that is no JSON is named, with the place.
#include "launcher/report/summary_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/scratch_folder.h"

namespace rueda::report {
namespace {

std::string error_of(const std::filesystem::path& path, std::size_t largest = kLargestSummary) {
  return error_message([&] { static_cast<void>(read_summary(path, largest)); });
}

TEST(SummaryFile, IsReadWhole) {
  const ScratchFolder scratch;
  const auto path = scratch.write("a.json", R"({"text": ")" + std::string(3 << 20, 'x') + R"("})");
  EXPECT_EQ(read_summary(path)["text"].get<std::string>().size(), std::size_t{3} << 20);
}

TEST(SummaryFile, ErrorsNameFileLineAndColumn) {
  const ScratchFolder scratch;
  const auto broken = scratch.write("broken.json", "{\"a\": 1,\n  b}");
  EXPECT_TRUE(error_of(broken).starts_with(broken.string() + ":2:3: malformed JSON: ")) << error_of(broken);
  const auto empty = scratch.write("empty.json", "");
  EXPECT_EQ(error_of(empty), empty.string() + ":1:1: malformed JSON: the file is empty");
  const auto cut = scratch.write("cut.json", "{\"a\": [1");
  EXPECT_EQ(error_of(cut), cut.string() + ":1:9: malformed JSON: the file ends too early: it was cut");
  const auto wide = scratch.write("wide.json", std::string_view("\xff\xfe{\0", 4));
  EXPECT_TRUE(error_of(wide).starts_with(wide.string() + " is text in UTF-16: convert it with iconv"));
  const auto bytes = scratch.write("bytes.json", "{\"a\": \"\xff\x01\n\"}");
  EXPECT_TRUE(error_of(bytes).starts_with(bytes.string() + ":1:8: malformed JSON: ")) << error_of(bytes);
  EXPECT_EQ(error_of(bytes).find('\n'), std::string::npos);
  const auto large = scratch.write("large.json", "[1e400]");
  EXPECT_TRUE(error_of(large).starts_with(large.string())) << error_of(large);
}

TEST(SummaryFile, OnlyRegularFilesOfABoundedSizeAreRead) {
  const ScratchFolder scratch;
  EXPECT_EQ(error_of(scratch.path()), "cannot read " + scratch.path().string() + ": Is a directory");
  const auto missing = scratch.path() / "none.json";
  EXPECT_EQ(error_of(missing), "cannot open " + missing.string() + ": No such file or directory");
  const auto pipe = scratch.path() / "pipe.json";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_of(pipe), "cannot read " + pipe.string() + ": it is no regular file");
  const auto large = scratch.write("large.json", std::string(100, ' '));
  EXPECT_EQ(error_of(large, 99), large.string() + " has more than 99 bytes, the most that is read of it");
}

}  // namespace
}  // namespace rueda::report
