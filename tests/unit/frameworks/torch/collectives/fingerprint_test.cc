// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/collectives/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace rueda {
namespace {

TEST(Fingerprint, EveryByteAndEveryLengthMatter) {
  std::set<std::uint64_t> seen;
  std::size_t tried = 0;
  for (std::size_t length = 0; length <= 77; ++length) {
    std::vector<std::byte> bytes(length);
    EXPECT_TRUE(seen.insert(fingerprint(bytes)).second) << length << " zeros";
    ++tried;
    for (std::byte& byte : bytes) {
      for (int bit = 0; bit < 8; ++bit, ++tried) {
        byte = std::byte{1} << bit;
        EXPECT_TRUE(seen.insert(fingerprint(bytes)).second) << length << " bytes, bit " << bit;
      }
      byte = std::byte{0};
    }
  }
  EXPECT_EQ(seen.size(), tried);
}

TEST(Fingerprint, OrderMattersAndAddressDoesNot) {
  std::vector<std::byte> bytes(129);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> moved(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), moved.begin() + 1);
  EXPECT_EQ(fingerprint(bytes), fingerprint(std::span(moved).subspan(1)));  // not aligned
  for (const std::size_t apart : {1, 8, 32, 64}) {
    std::vector<std::byte> swapped = bytes;
    std::swap(swapped[3], swapped[3 + apart]);
    EXPECT_NE(fingerprint(bytes), fingerprint(swapped)) << apart;
  }
}

}  // namespace
}  // namespace rueda
