// SPDX-License-Identifier: Apache-2.0
// The bytes that Python's pickle is to read. tests/python/test_dump.py lets it read them.
#include "launcher/dump/pickle_writer.h"

#include <gtest/gtest.h>

#include <string>

namespace rueda {
namespace {

using namespace std::string_literals;

template <class Value>
std::string pickled(Value value) {
  PickleWriter writer;
  writer.put(value);
  return writer.take();
}

TEST(PickleWriter, WritesNumbersAndTexts) {
  EXPECT_EQ(pickled(std::int64_t{1}), "\x80\x02J\x01\0\0\0."s);
  EXPECT_EQ(pickled(std::int64_t{-2}), "\x80\x02J\xfe\xff\xff\xff."s);
  EXPECT_EQ(pickled(std::int64_t{1} << 31), "\x80\x02\x8a\x08\0\0\0\x80\0\0\0\0."s);
  EXPECT_EQ(pickled(-(std::int64_t{1} << 31) - 1), "\x80\x02\x8a\x08\xff\xff\xff\x7f\xff\xff\xff\xff."s);
  EXPECT_EQ(pickled(true), "\x80\x02\x88."s);
  EXPECT_EQ(pickled(false), "\x80\x02\x89."s);
  EXPECT_EQ(pickled(1.5), "\x80\x02G\x3f\xf8\0\0\0\0\0\0."s);
  EXPECT_EQ(pickled("ab"), "\x80\x02X\x02\0\0\0ab."s);
}

TEST(PickleWriter, WritesListsTuplesAndDictionaries) {
  PickleWriter writer;
  writer.begin_dictionary();
  writer.put("a");
  writer.begin_list();
  writer.begin_tuple();
  writer.put_none();
  writer.end_tuple();
  writer.end_list();
  writer.end_dictionary();
  EXPECT_EQ(writer.take(), "\x80\x02}(X\x01\0\0\0a]((Nteu."s);
  writer.put_none();
  EXPECT_EQ(writer.take(), "\x80\x02N."s);
}

TEST(ValidUtf8, KeepsCharactersAndReplacesOtherBytes) {
  EXPECT_EQ(valid_utf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xb2"), "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\xb2");
  EXPECT_EQ(valid_utf8("\xff\xc3"), "??");
  EXPECT_EQ(valid_utf8("\xc0\x80"), "??");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "???");
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), "????");
  EXPECT_EQ(valid_utf8("\xe2\x82x"), "??x");
}

}  // namespace
}  // namespace rueda
