// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/hierarchy_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/control/messages/control_message.h"
#include "ops/algorithms/link_backend.h"
#include "ops/hierarchy/hierarchy_backend.h"
#include "ops/hierarchy/slices.h"
#include "ops/link/peer_info.h"

namespace rueda {
namespace {

// Rank 0's setting counts: all must cut alike. What came from it may be of another build.
std::size_t slices_of(const std::string& card) {
  Reader reader({reinterpret_cast<const std::byte*>(card.data()), card.size()});
  const auto slices = reader.get<std::uint32_t>();
  if (reader.complete() && slices <= Slices::kMost) return slices;
  throw BackendError(Status::backend_error(fmt::format(
      "rank 0 says in {} bytes that it cuts data into {} slices; at most {} are possible. Are all "
      "ranks of one build?",
      card.size(), slices, Slices::kMost)));
}

std::string card_of(const RuntimeComponents& parts) {
  if (parts.rank != 0) return {};
  Writer writer;
  writer.put(static_cast<std::uint32_t>(parts.config.rings));
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void add_hierarchy(RuntimeComponents& parts, const SharedMemory& shared) {
  auto areas = std::make_shared<WideAreas>();
  std::vector<std::unique_ptr<Backend>> added;
  auto first = parts.backends.end();
  for (auto backend = parts.backends.begin(); backend != parts.backends.end(); ++backend) {
    auto* below = dynamic_cast<LinkBackend*>(backend->get());
    if (below == nullptr) continue;
    if (first == parts.backends.end()) first = backend;
    added.push_back(
        std::make_unique<HierarchyBackend>(parts.rank, *below, shared.neighbours, shared.hosts, areas));
  }
  parts.backends.insert(first, std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
  add_peer_info(parts, card_of(parts), [areas](const Welcome& welcome, const RuntimeComponents::Alive&) {
    areas->most_slices = slices_of(welcome.cards[0]);
  });
}

}  // namespace rueda
