// SPDX-License-Identifier: Apache-2.0
// libFuzzer: the bounded reader, driven by a random sequence of reads. The first byte of each step says what
// to read; what is read comes from the rest of the same input.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/base/bytes.h"
#include "core/base/operation_traits.h"
#include "core/control/messages/id_set.h"
#include "core/control/messages/rank_set_message.h"
#include "rueda/rank_set.h"
#include "rueda/types.h"

namespace rueda {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// One read; nothing that comes of it may be larger than what is there.
void read_something(Reader& reader, unsigned what, std::size_t size) {
  switch (what % 8) {
    case 0: reader.get<std::uint8_t>(); break;
    case 1: reader.get<std::uint64_t>(); break;
    case 2: reader.get_enum(operation_from); break;
    case 3: require(reader.get_string().size() <= size); break;
    case 4: require(reader.get_count(1 + what / 8) * (1 + what / 8) <= size); break;
    case 5: {
      const auto items = reader.get_list<std::uint16_t>(2, [](Reader& r) { return r.get<std::uint16_t>(); });
      require(2 * items.size() <= size);
      break;
    }
    case 6: {
      const RankSet ranks = read_rank_set(reader);
      require(ranks.empty() || (ranks.first() >= 0 && ranks.count() > 0 && ranks.contains(ranks.first())));
      break;
    }
    default: {
      const IdSet ids = read_id_set(reader);
      require(ids.words().size() * 12 <= size);
    }
  }
}

}  // namespace
}  // namespace rueda

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rueda;
  const std::size_t steps = size > 0 ? std::min<std::size_t>(data[0], size - 1) : 0;
  Reader reader(ConstBytes(reinterpret_cast<const std::byte*>(data), size).subspan(steps));
  for (std::size_t i = 0; i < steps; ++i) {
    const bool failed = !reader.ok();
    read_something(reader, data[1 + i], size);
    if (!failed) continue;
    require(!reader.ok() && !reader.complete());  // for good
    require(reader.get<std::uint32_t>() == 0);
  }
  return 0;
}
