// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_components.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "core/control/messages/control_message.h"
#include "ops/algorithms/link_backend.h"
#include "ops/link/peer_info.h"
#include "ops/nccl/nccl_backend.h"
#include "ops/nccl/nccl_hierarchy.h"

namespace rueda {
namespace {

// NCCL's own setting, of its newer versions.
bool may_share_devices() {
  const char* value = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

void add_nccl(RuntimeComponents& components, const std::shared_ptr<DeviceSides>& sides,
              std::function<const NcclLibrary&()> nccl) {
  const auto memory = std::make_shared<NcclMemory>(sides->shared_devices(), nccl);
  components.device_memory = [memory](int device, std::size_t bytes) {
    return memory->allocate(device, bytes);
  };
  NcclOwn own{std::move(nccl),
              memory,
              components.host,
              static_cast<std::size_t>(components.config.nccl_streams),
              static_cast<std::size_t>(components.config.fusion_threshold),
              may_share_devices(),
              components.config.encrypt};
  const auto state = std::make_shared<NcclState>(std::move(own), components.rank);
  const auto hosts = std::make_shared<Hosts>([](Rank) { return true; });
  std::vector<std::unique_ptr<Backend>> added;
  for (const std::unique_ptr<Backend>& backend : components.backends) {
    auto* link = dynamic_cast<LinkBackend*>(backend.get());
    if (link == nullptr) continue;
    added.push_back(
        std::make_unique<NcclHierarchyBackend>(*link, state, sides, hosts, components.config.nccl_hierarchy));
    added.push_back(std::make_unique<NcclBackend>(*link, state, sides));
  }
  auto on_devices = [](const std::unique_ptr<Backend>& each) { return each->device() != DeviceKind::host; };
  components.backends.insert(std::ranges::find_if(components.backends, on_devices),
                             std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
  add_peer_info(components, "", [hosts](const Welcome& welcome, const RuntimeComponents::Alive&) {
    hosts->set_names(welcome.hosts);
  });
}

}  // namespace rueda
