// SPDX-License-Identifier: Apache-2.0
// Bytes as hexadecimal digits, and texts that are none.
#include "core/base/system/hex.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

TEST(Hex, ComesBackAsItWas) {
  Bytes all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i);
  EXPECT_EQ(to_hex(Bytes{std::byte{0}, std::byte{0x9f}, std::byte{0xff}}), "009fff");
  EXPECT_EQ(from_hex(to_hex(all)), all);
  EXPECT_EQ(from_hex("00FF"), from_hex("00ff"));
  EXPECT_EQ(from_hex(""), Bytes());
}

TEST(Hex, OtherTextsAreRefused) {
  for (const char* text : {"0", "0g", "00 ", " 00", "0x00", "00:11", "00\n"})
    EXPECT_FALSE(from_hex(text)) << text;
}

}  // namespace
}  // namespace rueda
