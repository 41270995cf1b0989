// SPDX-License-Identifier: Apache-2.0
#include "core/byte_exchange.h"

#include <span>

#include "core/rueda.h"

namespace rueda {

void broadcast_bytes(std::string& bytes, Rank root, const std::string& name, const Scope& scope) {
  std::vector<std::int64_t> size{static_cast<std::int64_t>(bytes.size())};
  const TensorView sizes = view(size);
  broadcast_async(name + ".size", sizes, sizes, root, scope).wait();
  bytes.resize(static_cast<std::size_t>(size.front()));
  const TensorView both{bytes.data(), DataType::uint8, {size.front()}, {}};
  broadcast_async(name + ".bytes", both, both, root, scope).wait();
}

std::vector<std::string> allgather_bytes(const std::string& bytes, const std::string& name,
                                         const Scope& scope) {
  std::vector<std::int64_t> size{static_cast<std::int64_t>(bytes.size())};
  const Handle sizes = allgather_async(name + ".size", view(size), scope);
  const ConstTensorView mine(bytes.data(), DataType::uint8, {size.front()});
  const Handle contents = allgather_async(name + ".bytes", mine, scope);
  sizes.wait();
  contents.wait();
  const std::span all_sizes(static_cast<const std::int64_t*>(sizes.output().data),
                            static_cast<std::size_t>(sizes.output().elements()));
  const char* place = static_cast<const char*>(contents.output().data);
  std::vector<std::string> ranks;
  for (std::int64_t each : all_sizes) {
    ranks.emplace_back(place, static_cast<std::size_t>(each));
    place += each;
  }
  return ranks;
}

}  // namespace rueda
