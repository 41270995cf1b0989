// SPDX-License-Identifier: Apache-2.0
// Cache ids on their way: one bit each.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/bytes.h"

namespace rueda {

using CacheId = std::uint32_t;  // 0: none. Given by rank 0, ever growing, never used again

// Purpose: a set of ids as 64-bit words, those without a bit left out. A plain value.
class IdSet {
 public:
  struct Word {
    std::uint32_t index = 0;  // holds ids 64 * index and the 63 after it
    std::uint64_t bits = 0;
    friend bool operator==(const Word&, const Word&) = default;
  };

  void add(CacheId id);
  bool empty() const { return words_.empty(); }
  void clear() { words_.clear(); }
  const std::vector<Word>& words() const { return words_; }

  template <class Visit>
  void for_each(Visit visit) const {
    for (const Word& word : words_) {
      for (std::uint64_t bits = word.bits; bits != 0; bits &= bits - 1)
        visit(static_cast<CacheId>(word.index * 64 + static_cast<std::uint32_t>(std::countr_zero(bits))));
    }
  }

  friend bool operator==(const IdSet&, const IdSet&) = default;
  friend void write(Writer& writer, const IdSet& set);
  friend IdSet read_id_set(Reader& reader);

 private:
  std::vector<Word> words_;  // ascending, none of them zero
};

IdSet read_id_set(Reader& reader);

}  // namespace rueda
