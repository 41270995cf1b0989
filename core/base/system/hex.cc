// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/hex.h"

#include <sodium.h>

namespace rueda {

std::string to_hex(ConstBytes bytes) {
  std::string text(2 * bytes.size() + 1, '\0');  // with the end that C wants
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  text.pop_back();
  return text;
}

std::optional<Bytes> from_hex(std::string_view text) {
  if (text.empty()) return Bytes();
  Bytes bytes(text.size() / 2 + 1);  // one more: the library takes no null pointer
  std::size_t length = 0;
  const char* end = nullptr;
  const int failed = sodium_hex2bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                                    text.size(), nullptr, &length, &end);
  const bool whole = failed == 0 && length == text.size() / 2 && end == text.data() + text.size();
  bytes.resize(length);
  return whole ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace rueda
