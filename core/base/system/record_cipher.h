// SPDX-License-Identifier: Apache-2.0
// One direction of a connection whose bytes are many: each piece encrypted for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/system/authentication.h"

namespace rueda {

enum class Cipher : std::uint32_t { none = 0, aes256_gcm = 1, chacha20_poly1305 = 2 };
// The quickest that this processor can do.
Cipher best_cipher();
std::string_view to_string(Cipher cipher);

// Purpose: encrypts and decrypts records in their order, within the caller's memory. Each key belongs to one
// direction of one connection: the sequence number of a record, which never travels, is its nonce. Both ends
// call it with the same records in the same order. Not with Cipher::none. Owned by one thread.
class RecordCipher {
 public:
  static constexpr std::size_t kTagBytes = 16;

  RecordCipher(Cipher cipher, const Proof& key);
  ~RecordCipher();
  RecordCipher(RecordCipher&&) noexcept;
  RecordCipher& operator=(RecordCipher&&) noexcept;

  // `record`: the text, and room for the tag behind it. The header travels in the clear, and is proved.
  void seal(ConstBytes header, MutableBytes record);
  // False where header, record or its sequence number are not as they were sealed; the text is zeroes then.
  bool open(ConstBytes header, MutableBytes record);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda
