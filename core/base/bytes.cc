// SPDX-License-Identifier: Apache-2.0
#include "core/base/bytes.h"

namespace rueda {

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
  ConstBytes text = take(get<std::uint32_t>());
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

std::size_t Reader::get_count(std::size_t item_bytes) {
  const std::size_t count = get<std::uint32_t>();
  if (count > bytes_.size() / item_bytes) {
    fail();
    return 0;
  }
  return count;
}

}  // namespace rueda
