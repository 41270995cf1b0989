// SPDX-License-Identifier: Apache-2.0
// Safetensors files: round trip, each check, and files damaged at every byte of the header.
#include "examples/lib/model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files/safetensors.h"
#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string to_string(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The bytes of a file with this JSON header and this much data.
std::string with_header(const std::string& header, const std::string& data = "") {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>((header.size() >> (8 * i)) & 0xFF);
  return length + header + data;
}

class Safetensors : public testing::Test {
 protected:
  SafetensorEntry entry(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
                        std::size_t bytes) {
    return {name, dtype, std::move(shape), std::as_bytes(std::span(numbers_)).first(bytes)};
  }
  std::filesystem::path write(std::span<const SafetensorEntry> entries) {
    const auto path = scratch_.path() / "model.safetensors";
    write_safetensors(path, entries, {{"format", "pt"}});
    return path;
  }
  std::string error_of(const std::string& bytes) {
    const auto path = scratch_.write("bad.safetensors", bytes);
    const std::string message = error_message([&] { SafetensorsFile::open(path); });
    EXPECT_THAT(message, HasSubstr(path.string()));
    return message;
  }
  std::string error_of_header(const std::string& header, const std::string& data = "12345678") {
    return error_of(with_header(header, data));
  }

  ScratchFolder scratch_;
  std::vector<float> numbers_ = {1.5F, -2, 3, 4, 5, 6, 7, 8};
};

TEST_F(Safetensors, RoundTrip) {
  const std::vector<SafetensorEntry> entries = {
      entry("bytes", "U8", {3}, 3), entry("wide", "F32", {2, 3}, 24), entry("scalar", "I64", {}, 8),
      entry("none", "BF16", {0, 4}, 0)};
  const auto path = write(entries);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 1);  // no temporary file

  const auto file = SafetensorsFile::open(path);
  ASSERT_EQ(file.entries().size(), 4U);
  for (const SafetensorEntry& wanted : entries) {
    const SafetensorEntry* found = file.find(wanted.name);
    ASSERT_NE(found, nullptr) << wanted.name;
    EXPECT_EQ(found->dtype, wanted.dtype);
    EXPECT_EQ(found->shape, wanted.shape);
    EXPECT_EQ(to_string(found->data), to_string(wanted.data));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->data.data()) % safetensors_item_size(found->dtype), 0U);
  }
  EXPECT_EQ(file.find("other"), nullptr);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(static_cast<unsigned char>(read_bytes(path)[0]) % 8, 0);
}

TEST_F(Safetensors, EmptyFileOfTensors) {
  const auto file = SafetensorsFile::open(write({}));
  EXPECT_TRUE(file.entries().empty());
}

TEST_F(Safetensors, MovingKeepsTheEntries) {
  const std::vector<SafetensorEntry> entries = {entry("a", "F32", {2}, 8)};
  auto first = SafetensorsFile::open(write(entries));
  const std::byte* data = first.find("a")->data.data();
  SafetensorsFile second = std::move(first);
  EXPECT_EQ(second.find("a")->data.data(), data);
  auto third = SafetensorsFile::open(scratch_.write("none.safetensors", with_header("{}")));
  third = std::move(second);
  EXPECT_EQ(to_string(third.find("a")->data), to_string(entries[0].data));
}

TEST_F(Safetensors, WriteReplacesTheOldFileOnlyWhenItSucceeds) {
  const std::vector<SafetensorEntry> good = {entry("a", "F32", {2}, 8)};
  const auto path = write(good);
  const std::vector<SafetensorEntry> bad = {entry("b", "F32", {2}, 4)};
  EXPECT_THAT(error_message([&] { write(bad); }),
              AllOf(HasSubstr("tensor \"b\""), HasSubstr("need 8 bytes, 4 were given")));
  EXPECT_NE(SafetensorsFile::open(path).find("a"), nullptr);
}

TEST_F(Safetensors, WriteRefusesWhatCannotBeRead) {
  const std::vector<SafetensorEntry> twice = {entry("a", "F32", {1}, 4), entry("a", "F32", {1}, 4)};
  EXPECT_THAT(error_message([&] { write(twice); }), HasSubstr("tensor \"a\" was given twice"));
  const std::vector<SafetensorEntry> unknown = {entry("a", "F31", {1}, 4)};
  EXPECT_THAT(error_message([&] { write(unknown); }), HasSubstr("unknown dtype \"F31\""));
  const std::vector<SafetensorEntry> negative = {entry("a", "F32", {-1}, 4)};
  EXPECT_THAT(error_message([&] { write(negative); }), HasSubstr("too many bytes"));
  const std::vector<SafetensorEntry> reserved = {entry("__metadata__", "F32", {1}, 4)};
  EXPECT_THAT(error_message([&] { write(reserved); }), HasSubstr("keeps this name"));
  const std::vector<SafetensorEntry> name = {entry("\xff", "F32", {1}, 4)};
  EXPECT_THAT(error_message([&] { write(name); }), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error_message([&] { write_safetensors(scratch_.path() / "no" / "file", {}, {}); }),
              HasSubstr("No such file or directory"));
}

TEST_F(Safetensors, FilesThatCannotBeOpened) {
  const auto missing = scratch_.path() / "missing";
  EXPECT_EQ(error_message([&] { SafetensorsFile::open(missing); }),
            "cannot open " + missing.string() + ": No such file or directory");
  EXPECT_THAT(error_message([&] { SafetensorsFile::open(scratch_.path()); }), HasSubstr("Is a directory"));
}

TEST_F(Safetensors, LengthsAreChecked) {
  EXPECT_THAT(error_of(""), HasSubstr("is cut short: it has 0 bytes, at least 8 are needed"));
  EXPECT_THAT(error_of(std::string("\x10\0\0\0\0\0\0\0{}", 10)), HasSubstr("need 24 bytes, the file has 10"));
  EXPECT_THAT(error_of(std::string("\0\0\0\0\0\0\0\x80{}", 10)), HasSubstr("at most 100000000 are allowed"));
}

TEST_F(Safetensors, HeadersAreChecked) {
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "a JSON array, not an object"},
      {"{", "malformed JSON"},
      {"{\"a\":1}", "a JSON number, not an object"},
      {"{\"a\":{}}", "no string \"dtype\""},
      {tensor("1", "[2]", "[0,8]"), "no string \"dtype\""},
      {tensor("\"F31\"", "[2]", "[0,8]"), "unknown dtype \"F31\""},
      {tensor("\"F32\"", "2", "[0,8]"), "no array \"shape\""},
      {tensor("\"F32\"", "[-2]", "[0,8]"), "the dimension -2"},
      {tensor("\"F32\"", "[2.0]", "[0,8]"), "the dimension 2.0"},
      {tensor("\"F32\"", "[18446744073709551615]", "[0,8]"), "the dimension 18446744073709551615"},
      {tensor("\"F32\"", "[4611686018427387904,4]", "[0,8]"), "overflows"},
      {tensor("\"F32\"", "[2]", "[0]"), "no \"data_offsets\""},
      {tensor("\"F32\"", "[2]", "[-8,0]"), "no \"data_offsets\""},
      {tensor("\"F32\"", "[2]", "[8,0]"), "ends at byte 0, before its beginning at 8"},
      {tensor("\"F32\"", "[4]", "[0,16]"), "needs 16 bytes of data, the file has 8"},
      {tensor("\"F32\"", "[2]", "[0,4]"), "needs 8 bytes, its data_offsets span 4"},
      {tensor("\"F32\"", "[1]", "[0,4]"), "need 4 bytes of data, the file has 8"},
      {tensor("\"F32\"", "[1]", "[4,8]"), "bytes 0 to 4, before tensor \"a\", belong to no tensor"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":["
       "1],"
       "\"data_offsets\":[4,8]}}",
       "tensor \"b\" begins at byte 4, inside the tensor before it, which ends at 8"},
      {"{\"a\":{},\"a\":{}}", "tensor \"a\" stands twice"},
      {"{\"__metadata__\":[]}", "not an object"},
      {"{\"__metadata__\":{\"format\":1}}", "not a string"}};
  for (const auto& [header, message] : cases)
    EXPECT_THAT(error_of_header(header), HasSubstr(message)) << header;
}

TEST_F(Safetensors, DeepNestingIsAnErrorAndNoOverflowOfTheStack) {
  const std::string deep = std::string(2'000'000, '[') + std::string(2'000'000, ']');
  EXPECT_THAT(
      error_of_header(R"({"a":{"dtype":"F32","shape":[)" + deep + R"(],"data_offsets":[0,8]}})"),
      HasSubstr("not a valid safetensors file: its header: its JSON is nested more than 8 levels deep"));
}

// Reads damaged bytes to the last one: an error that names the file, or a valid file. The bytes stand in a
// block of memory of just their size, so that the address sanitizer sees any read beyond it.
class Damage : public Safetensors {
 protected:
  Damage() {
    const std::vector<SafetensorEntry> entries = {entry("weight", "F32", {2, 3}, 24),
                                                  entry("bias", "I16", {3}, 6)};
    bytes_ = read_bytes(write(entries));
    header_end_ = 8 + static_cast<unsigned char>(bytes_[0]);
  }
  bool opens(const std::string& bytes) {
    const auto view = std::as_bytes(std::span(bytes));
    const std::vector<std::byte> block(view.begin(), view.end());
    try {
      unsigned sum = 0;
      for (const SafetensorEntry& entry : parse_safetensors("damaged.safetensors", block).entries)
        for (const std::byte byte : entry.data) sum += std::to_integer<unsigned>(byte);
      EXPECT_LE(sum, 255 * bytes.size());
      return true;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("damaged.safetensors"));
      return false;
    }
  }

  std::string bytes_;
  std::size_t header_end_ = 0;
};

TEST_F(Damage, EveryTruncationIsAnError) {
  ASSERT_TRUE(opens(bytes_));
  for (std::size_t size = 0; size < bytes_.size(); ++size) {
    EXPECT_FALSE(opens(bytes_.substr(0, size))) << size;
    EXPECT_THAT(error_of(bytes_.substr(0, size)), HasSubstr("is cut short"));
  }
  EXPECT_FALSE(opens(bytes_ + "x"));
}

TEST_F(Damage, TheTensorInWhichTheFileEndsIsNamed) {
  EXPECT_THAT(
      error_of(bytes_.substr(0, header_end_ + 23)),
      HasSubstr(
          "bad.safetensors is cut short: it ends inside tensor \"weight\", which needs 24 bytes of data, "
          "the file has 23; fetch or copy it again"));
  EXPECT_THAT(error_of(bytes_.substr(0, header_end_ + 24)), HasSubstr("it ends inside tensor \"bias\""));
}

TEST_F(Damage, NoFlippedHeaderBitCrashes) {
  std::size_t errors = 0;
  for (std::size_t byte = 0; byte < header_end_; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes_;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      errors += opens(damaged) ? 0 : 1;
    }
  }
  EXPECT_GT(errors, header_end_ * 4);  // most; a flip inside a name leaves a valid file
}

TEST_F(Damage, NoOtherHeaderByteCrashes) {
  for (std::size_t byte = 0; byte < header_end_; ++byte) {
    for (const char value : {'\0', '\xff', '{', '}', '[', ']', '"', ',', ':', '-', '0', '9', '\\'}) {
      std::string damaged = bytes_;
      damaged[byte] = value;
      opens(damaged);
    }
  }
}

}  // namespace
}  // namespace rueda::examples
