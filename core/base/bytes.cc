// SPDX-License-Identifier: Apache-2.0
#include "core/base/bytes.h"

#include <algorithm>

namespace rueda {

void Writer::grow(std::size_t count) {
  constexpr std::size_t kUsual = 128;  // most messages are not longer
  bytes_.resize(std::max({written_ + count, 2 * bytes_.size(), kUsual}));
}

void Writer::put_size(std::uint64_t size) {
  for (; size >= 0x80; size >>= 7) put(static_cast<std::uint8_t>(0x80 | (size & 0x7f)));
  put(static_cast<std::uint8_t>(size));
}

void Writer::put_string(std::string_view text) {
  put_count(text.size());
  append(text.data(), text.size());
}

ConstBytes Reader::take(std::size_t count) {
  if (!ok_ || count > bytes_.size()) {
    fail();
    return {};
  }
  ConstBytes taken = bytes_.first(count);
  bytes_ = bytes_.subspan(count);
  return taken;
}

std::string Reader::get_string() {
  ConstBytes text = take(get_count(1));
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

std::int64_t Reader::get_size() {
  std::uint64_t size = 0;
  for (int shift = 0; shift < 63; shift += 7) {
    const auto byte = get<std::uint8_t>();
    size |= std::uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) != 0) continue;
    if (byte == 0 && shift > 0) break;  // there is one way to write a number
    return static_cast<std::int64_t>(size);
  }
  fail();
  return 0;
}

std::size_t Reader::get_count(std::size_t item_bytes) {
  const auto count = static_cast<std::size_t>(get_size());
  if (count > bytes_.size() / item_bytes) {
    fail();
    return 0;
  }
  return count;
}

}  // namespace rueda
