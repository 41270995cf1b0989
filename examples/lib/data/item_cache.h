// SPDX-License-Identifier: Apache-2.0
// The records of a data file's good items and the words on its bad ones, in the node's cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "examples/lib/data/files/bad_items.h"
#include "examples/lib/data/files/record_file.h"
#include "examples/lib/data/token_cache.h"
#include "examples/lib/data/tokenizer/word_piece.h"

namespace rueda::examples {

// Purpose: the records of a file's good items, by number, with its bad items as the last record of the cache.
// One cache serves runs that refuse bad items and runs that leave them out. Immutable; any thread.
class ItemCache {
 public:
  // Appends a record for each good item, and returns the bad ones.
  using Build = std::function<BadItems(RecordWriter&)>;

  // Throws the errors of TokenCache::get(). Throws std::runtime_error naming the bad items if they are
  // refused, or if no other is left.
  static ItemCache open(TokenCache::Key key, const WordPieceTokenizer& tokenizer, const TokenCache& cache,
                        OnBadItems on_bad, const Build& build);

  std::size_t size() const { return records_.size() - 1; }
  std::uint32_t checksum() const { return records_.checksum(); }
  const BadItems& bad() const { return bad_; }  // that were left out
  // Record `index`, below size(); valid as long as this object, moved or not.
  std::span<const std::int32_t> operator[](std::size_t index) const { return records_[index]; }

 private:
  explicit ItemCache(RecordFile records)
      : records_(std::move(records)), bad_(BadItems::from_record(records_[records_.size() - 1])) {}

  RecordFile records_;
  BadItems bad_;
};

}  // namespace rueda::examples
