// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/hierarchy_components.h"

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

// Rank 0's setting counts, as all must cut alike. Rank 0 may be of another build.
std::size_t slices_of(const std::string& info) {
  Reader reader({reinterpret_cast<const std::byte*>(info.data()), info.size()});
  const auto slices = reader.get<std::uint32_t>();
  if (reader.complete() && slices <= Slices::kMost) return slices;
  throw BackendError(Status::backend_error(fmt::format(
      "rank 0 says in {} bytes that it cuts data into {} slices; at most {} are possible. Are all "
      "ranks of one build?",
      info.size(), slices, Slices::kMost)));
}

std::string info_of(const RuntimeComponents& components) {
  if (components.rank != 0) return {};
  Writer writer;
  writer.put(static_cast<std::uint32_t>(components.config.rings));
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void add_hierarchy(RuntimeComponents& components, const SharedMemory& shared) {
  auto areas = std::make_shared<WideAreas>();
  std::vector<std::unique_ptr<Backend>> added;
  auto first = components.backends.end();
  for (auto backend = components.backends.begin(); backend != components.backends.end(); ++backend) {
    auto* below = dynamic_cast<LinkBackend*>(backend->get());
    if (below == nullptr) continue;
    if (first == components.backends.end()) first = backend;
    added.push_back(
        std::make_unique<HierarchyBackend>(components.rank, *below, shared.local_peers, shared.hosts, areas));
  }
  components.backends.insert(first, std::make_move_iterator(added.begin()),
                             std::make_move_iterator(added.end()));
  add_peer_info(components, info_of(components),
                [areas](const Welcome& welcome, const RuntimeComponents::Alive&) {
                  areas->most_slices = slices_of(welcome.peer_infos[0]);
                });
}

}  // namespace rueda
