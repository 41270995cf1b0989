// SPDX-License-Identifier: Apache-2.0
// Records that come back as they were, and others that are refused.
#include "core/base/system/record_cipher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/support/some_bytes.h"

namespace rueda {
namespace {

constexpr std::size_t kTag = RecordCipher::kTagBytes;

std::vector<Cipher> ciphers() {
  if (best_cipher() == Cipher::aes256_gcm) return {Cipher::aes256_gcm, Cipher::chacha20_poly1305};
  return {Cipher::chacha20_poly1305};
}

Bytes sealed(RecordCipher& cipher, ConstBytes header, Bytes text) {
  text.resize(text.size() + kTag);
  cipher.seal(header, text);
  return text;
}

TEST(RecordCipher, TextsComeBackInTheirOrder) {
  for (const Cipher cipher : ciphers()) {
    const Proof key = prove(random_key(), {});
    RecordCipher here(cipher, key), there(cipher, key);
    for (const std::size_t size : {1, 15, 16, 17, 4096, 100000}) {
      const Bytes header = some_bytes(4, size), text = some_bytes(size, size);
      Bytes record = sealed(here, header, text);
      EXPECT_FALSE(std::equal(text.begin(), text.end(), record.begin()) && size > 1);
      ASSERT_TRUE(there.open(header, record)) << to_string(cipher) << size;
      record.resize(size);
      EXPECT_EQ(record, text);
    }
  }
}

TEST(RecordCipher, AnythingElseIsRefused) {
  for (const Cipher cipher : ciphers()) {
    const Proof key = prove(random_key(), {});
    const Bytes header = some_bytes(4, 1), text = some_bytes(100, 2);
    const auto is_refused = [&](const std::function<void(Bytes & header, Bytes & record)>& change) {
      RecordCipher here(cipher, key), there(cipher, key);
      Bytes changed = header, record = sealed(here, header, text);
      change(changed, record);
      return !there.open(changed, record);
    };
    for (const std::size_t offset : {0u, 50u, 99u, 100u, 115u})
      EXPECT_TRUE(is_refused([&](Bytes&, Bytes& record) { record[offset] ^= std::byte{1}; })) << offset;
    EXPECT_TRUE(is_refused([](Bytes& head, Bytes&) { head[3] ^= std::byte{1}; }));
    EXPECT_TRUE(is_refused([](Bytes&, Bytes& record) { record.pop_back(); }));
    EXPECT_TRUE(is_refused([](Bytes&, Bytes& record) { record.resize(kTag - 1); }));
  }
}

TEST(RecordCipher, RecordsKeepTheirSequenceAndTheirDirection) {
  for (const Cipher cipher : ciphers()) {
    const Proof key = prove(random_key(), {}), other = prove(random_key(), {});
    RecordCipher here(cipher, key), again(cipher, key), late(cipher, key), back(cipher, other);
    Bytes first = sealed(here, {}, some_bytes(20, 1)), copy = first, third = first, fourth = first;
    EXPECT_TRUE(again.open({}, first));
    EXPECT_FALSE(again.open({}, copy));  // is repeated
    Bytes second = sealed(here, {}, some_bytes(20, 1));
    EXPECT_FALSE(late.open({}, second));  // the first one is missing
    EXPECT_FALSE(back.open({}, third));
    EXPECT_NE(second, fourth);  // equal texts are not told apart
  }
}

}  // namespace
}  // namespace rueda
