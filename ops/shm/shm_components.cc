// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/shm_components.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/control/messages/control_message.h"
#include "ops/link/peer_info.h"
#include "ops/link/tree_transport.h"
#include "ops/shm/local_peers.h"
#include "ops/shm/shm_backend.h"
#include "ops/shm/shm_transport.h"

namespace rueda {
namespace {

// The ranks of this rank's host. In a job of several hosts this makes room for the data between them.
TreeTransport::Host host_of(Rank rank, LocalPeers& local_peers, std::size_t size) {
  TreeTransport::Host host;
  host.ranks = local_peers.of_host();
  std::ranges::copy_if(host.ranks, std::back_inserter(host.mapped),
                       [&](Rank other) { return local_peers.reaches(other); });
  host.everybody = host.ranks.size() == size;
  if (host.everybody) return host;
  const Status room = local_peers.claim_wide_areas();
  if (!room.ok())
    log(LogLevel::warning,
        "rank {}: data goes to other hosts by each rank of this one, as if it were alone: {}", rank,
        room.message);
  host.ready = room.ok();
  return host;
}

}  // namespace

SharedMemory add_shared_memory(RuntimeComponents& components, std::size_t slots) {
  Segment::Result made = components.config.shm ? Segment::make() : Segment::Result{};
  if (!made.status.ok()) log(LogLevel::warning, "rank {}: {}", components.rank, made.status.message);
  if (made.segment) {
    SegmentContents& own = made.segment->contents();
    components.doorbell =
        std::make_shared<EventCount>(std::shared_ptr<EventCountWord>(made.segment, &own.doorbell));
    components.record = std::shared_ptr<RecorderPage>(made.segment, &own.record);
    components.record_file = {made.segment->handle().file, offsetof(SegmentContents, record)};
  }

  const Rank rank = components.rank;
  std::shared_ptr<Window> window =
      made.segment ? Window::make(rank, components.config.window_limit) : nullptr;
  components.tensor_memory = window;
  auto local_peers = std::make_shared<LocalPeers>(rank, std::move(made.segment), std::move(window));
  auto near = std::make_unique<ShmTransport>(local_peers);
  ShmTransport* inside = near.get();
  auto tree = std::make_unique<TreeTransport>(rank, std::move(components.transport), std::move(near));
  TreeTransport* whole = tree.get();  // as `inside` it lives as long as the transport of this job
  auto hosts = std::make_shared<Hosts>([whole](Rank leader) { return whole->complete(leader); });

  components.last_words = [local_peers](Rank lost) {
    std::string text;
    if (!local_peers->reaches(lost) || local_peers->contents(lost).told.exchange(1) != 0) return text;
    const auto* page = reinterpret_cast<const std::byte*>(&local_peers->contents(lost).record);
    for (const std::string& line : read_recorder_page({page, sizeof(RecorderPage)})) text += "\n" + line;
    return text;
  };
  add_peer_info(components, local_peers->peer_info(),
                [=](const Welcome& welcome, const RuntimeComponents::Alive&) {
                  local_peers->connect(welcome);
                  inside->connect(rank);
                  hosts->set_names(welcome.hosts);
                  whole->connect(host_of(rank, *local_peers, welcome.hosts.size()));
                });
  auto near_only = [hosts](const Plan& plan) {
    const std::shared_ptr<const HostGroups> groups = hosts->groups(plan);
    return groups->hosts.size() == 1 && hosts->share_memory(*groups);
  };
  components.backends.insert(components.backends.begin(),
                             std::make_unique<ShmBackend>(rank, local_peers, std::move(near_only), slots));
  components.transport = std::move(tree);
  return {std::move(local_peers), std::move(hosts)};
}

}  // namespace rueda
