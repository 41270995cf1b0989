// SPDX-License-Identifier: Apache-2.0
// Reading text and JSON: contents, and errors that name the position.
#include "examples/lib/data/files/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class JsonFile : public testing::Test {
 protected:
  // What read_json() complains about when a file with this text is read.
  std::string error_of(const std::string& text) {
    return error_message([&] { read_json(scratch_.write("file.json", text)); });
  }
  std::string in_file(const std::string& rest) const {
    return (scratch_.path() / "file.json").string() + rest;
  }

  ScratchFolder scratch_;
};

TEST_F(JsonFile, ReadsTextAndJson) {
  const auto path = scratch_.write("file.json", "{\"a\": [1, \"é\"]}\n");
  EXPECT_EQ(read_text(path), "{\"a\": [1, \"é\"]}\n");
  EXPECT_EQ(read_json(path).at("a").at(1), "é");
  EXPECT_EQ(read_text(scratch_.write("empty", "")), "");
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(read_text(scratch_.write("large", large)), large);
}

TEST_F(JsonFile, NamesLineAndColumn) {
  EXPECT_THAT(error_of("{\n  \"a\": 1,\n  \"b\": ?\n}"), StartsWith(in_file(":3:8: malformed JSON: ")));
  EXPECT_THAT(error_of("[\"é\", x]"), StartsWith(in_file(":1:7: malformed JSON: ")));
  EXPECT_THAT(error_of("[1, 2"), StartsWith(in_file(":1:6: malformed JSON: ")));
  EXPECT_EQ(error_of(""), in_file(":1:1: malformed JSON: the file is empty"));
  EXPECT_THAT(error_of("[1] 2"), StartsWith(in_file(":1:5: malformed JSON: ")));
}

TEST_F(JsonFile, SaysWhereACutFileEnds) {
  EXPECT_EQ(error_of("[1, 2"), in_file(":1:6: malformed JSON: the file ends inside an array: it was cut"));
  EXPECT_THAT(error_of("[{\"a\": {\"b\": [1, {}]}, \"]\": 2"),
              HasSubstr("ends inside an object: it was cut"));
  EXPECT_THAT(error_of("{\"a\": \"x\\\"{"), HasSubstr("ends inside a string: it was cut"));
  EXPECT_THAT(error_of("tru"), HasSubstr("ends inside a value"));
}

TEST_F(JsonFile, SaysWhatAFileIsThatIsNotJson) {
  const auto said = [&](std::string_view text) { return error_of(std::string(text)); };
  EXPECT_THAT(said("\n<!DOCTYPE html><html></html>"), HasSubstr("malformed JSON: this is a page of the web"));
  EXPECT_THAT(said("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
              HasSubstr("git lfs pull"));
  using namespace std::string_view_literals;
  EXPECT_EQ(said("\x1f\x8b\x08\x00"sv), in_file(" is compressed by gzip: unpack it with gunzip"));
  EXPECT_THAT(said("PK\x03\x04"sv), HasSubstr("is a ZIP archive"));
  EXPECT_THAT(said("PAR1\x15\x04"sv), HasSubstr("is a Parquet table"));
  for (const std::string_view text : {"\xff\xfe{\0}\0"sv, "\xfe\xff\0{\0}"sv})
    EXPECT_EQ(said(text), in_file(" is text in UTF-16: convert it with iconv -f UTF-16 -t UTF-8"));
  EXPECT_THAT(said("\xff\xfe\0\0{\0\0\0"sv), HasSubstr("is text in UTF-32"));
}

TEST_F(JsonFile, NamesTheFileOfANumberThatIsTooLarge) {
  EXPECT_THAT(error_of("[1e999]"), StartsWith(in_file(": malformed JSON: number overflow")));
}

TEST_F(JsonFile, RefusesInvalidUtf8) {
  EXPECT_THAT(error_of("{\n\"\xff\": 1}"), StartsWith(in_file(":2:2: not valid UTF-8 (byte 0xff)")));
  EXPECT_THAT(error_of("\"\xc3"), StartsWith(in_file(":1:2: not valid UTF-8")));
  EXPECT_THAT(error_of("\"\xed\xa0\x80\""), HasSubstr("not valid UTF-8"));  // a surrogate
}

TEST_F(JsonFile, NamesAFileThatCannotBeRead) {
  const auto missing = scratch_.path() / "missing.json";
  EXPECT_EQ(error_message([&] { read_json(missing); }),
            "cannot open " + missing.string() + ": No such file or directory");
  EXPECT_EQ(error_message([&] { read_text(scratch_.path()); }),
            "cannot read " + scratch_.path().string() + ": Is a directory");
}

TEST_F(JsonFile, SurvivesDeepNesting) {
  EXPECT_THAT(error_of(std::string(1'000'000, '[')), HasSubstr("malformed JSON"));
}

}  // namespace
}  // namespace rueda::examples
