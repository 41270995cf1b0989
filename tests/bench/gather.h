// SPDX-License-Identifier: Apache-2.0
// Words of all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/rueda.h"

namespace rueda::bench {

// In the order of ranks. Collective.
inline std::vector<std::string> gather_words(const std::string& word, const Scope& scope = {}) {
  const auto length = static_cast<std::int64_t>(word.size());
  const Handle lengths =
      allgather_async("bench.lengths", ConstTensorView(&length, DataType::int64, {1}), scope);
  const Handle letters =
      allgather_async("bench.words", ConstTensorView(word.data(), DataType::uint8, {length}), scope);
  lengths.wait();
  letters.wait();
  std::vector<std::string> words;
  const auto* next = static_cast<const char*>(letters.output().data);
  for (Rank other = 0; other < scope.size(); ++other) {
    const auto each =
        static_cast<std::size_t>(static_cast<const std::int64_t*>(lengths.output().data)[other]);
    words.emplace_back(next, each);
    next += each;
  }
  return words;
}

}  // namespace rueda::bench
