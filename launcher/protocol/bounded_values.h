// SPDX-License-Identifier: Apache-2.0
// Values of messages, read within bounds: one outside makes the reader fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/bytes.h"

namespace rueda::agents {

constexpr std::int32_t kMostRanks = 1 << 20;

inline std::string get_text(Reader& reader, std::size_t longest) {
  std::string text = reader.get_string();
  if (text.size() > longest) reader.fail();
  return text;
}

inline std::int32_t get_number(Reader& reader, std::int32_t least, std::int32_t most = INT32_MAX) {
  const auto value = reader.get<std::int32_t>();
  if (value < least || value > most) reader.fail();
  return value;
}

inline std::int32_t get_rank(Reader& reader) { return get_number(reader, 0, kMostRanks - 1); }

}  // namespace rueda::agents
