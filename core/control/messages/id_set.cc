// SPDX-License-Identifier: Apache-2.0
#include "core/control/messages/id_set.h"

#include <algorithm>
#include <limits>

namespace rueda {

void IdSet::add(CacheId id) {
  const std::uint32_t index = id / 64;
  const std::uint64_t bit = std::uint64_t{1} << (id % 64);
  if (!words_.empty() && words_.back().index == index) {
    words_.back().bits |= bit;
    return;
  }
  auto found = std::ranges::lower_bound(words_, index, {}, &Word::index);
  if (found == words_.end() || found->index != index) found = words_.insert(found, {index, 0});
  found->bits |= bit;
}

void write(Writer& writer, const IdSet& set) {
  writer.put_count(set.words_.size());
  for (const IdSet::Word& word : set.words_) {
    writer.put(word.index);
    writer.put(word.bits);
  }
}

IdSet read_id_set(Reader& reader) {
  constexpr std::uint32_t kLargest = std::numeric_limits<CacheId>::max() / 64;
  IdSet set;
  set.words_.resize(reader.get_count(sizeof(std::uint32_t) + sizeof(std::uint64_t)));
  std::int64_t before = -1;
  for (IdSet::Word& word : set.words_) {
    word.index = reader.get<std::uint32_t>();
    word.bits = reader.get<std::uint64_t>();
    if (word.bits == 0 || word.index > kLargest || word.index <= before) reader.fail();
    before = word.index;
  }
  return set;
}

}  // namespace rueda
