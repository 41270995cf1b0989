// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/item_cache.h"

namespace rueda::examples {

ItemCache ItemCache::open(TokenCache::Key key, const WordPieceTokenizer& tokenizer, const TokenCache& cache,
                          OnBadItems on_bad, const Build& build) {
  key.settings += ", the last record is of bad items";
  ItemCache items(
      cache.get(key, tokenizer, [&](RecordWriter& writer) { writer.append(build(writer).to_record()); }));
  if (items.size() == 0) items.bad_.refuse_all(key.source.string());
  if (on_bad == OnBadItems::refuse) items.bad_.refuse_any(key.source.string());
  return items;
}

}  // namespace rueda::examples
