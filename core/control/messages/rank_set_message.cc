// SPDX-License-Identifier: Apache-2.0
#include "core/control/messages/rank_set_message.h"

#include <cstdint>
#include <limits>

namespace rueda {

void write(Writer& writer, const RankSet& set) {
  writer.put_count(set.ranges().size());
  Rank after = 0;
  for (auto [first, end] : set.ranges()) {
    writer.put_size(static_cast<std::uint64_t>(first - after));
    writer.put_size(static_cast<std::uint64_t>(end - first));
    after = end;
  }
}

// Ranges are apart and have members, so that there is one way to write a set.
RankSet read_rank_set(Reader& reader) {
  constexpr std::int64_t kMost = std::numeric_limits<Rank>::max();
  RankSet set;
  std::int64_t after = 0;
  for (std::size_t i = reader.get_count(2); i > 0; --i) {
    const std::int64_t gap = reader.get_size(), count = reader.get_size();
    if (gap > kMost - after || count > kMost - after - gap || count == 0 || (gap == 0 && after > 0)) {
      reader.fail();
      return {};
    }
    const std::int64_t first = after + gap;
    after = first + count;
    set.add(static_cast<Rank>(first), static_cast<Rank>(after));
  }
  return set;
}

}  // namespace rueda
