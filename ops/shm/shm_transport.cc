// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/shm_transport.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "core/base/error.h"

namespace rueda {

// The last messages (the end of the job, or why it failed) should still fit; a lost peer must not block us.
ShmTransport::~ShmTransport() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  try {
    while (std::ranges::any_of(edges_, [](const Edge& edge) { return !edge.writer.empty(); }) &&
           std::chrono::steady_clock::now() < deadline) {
      flush();
      sched_yield();
    }
  } catch (const Error&) {  // the message is lost; there is nobody left to tell
  }
  local_peers_->end();
}

void ShmTransport::connect(Rank rank) {
  const Rank leader = local_peers_->of_host().front();
  for (Rank peer : local_peers_->of_host()) {
    if (peer == rank || (rank != leader && peer != leader) || !local_peers_->reaches(peer)) continue;
    SegmentContents& rings = local_peers_->contents(rank == leader ? peer : rank);
    ByteRing& out = rank == leader ? rings.down : rings.up;
    ByteRing& in = rank == leader ? rings.up : rings.down;
    const EventCount& doorbell = local_peers_->doorbell(peer);
    edges_.push_back({peer, ByteRingWriter(out, doorbell), ByteRingReader(in, doorbell)});
  }
}

void ShmTransport::send(Rank to, Bytes bytes) {
  owner_.check();
  const auto edge = std::ranges::find(edges_, to, &Edge::peer);
  RUEDA_ASSERT(edge != edges_.end());
  edge->writer.send(std::move(bytes));
  throw_if_error(edge->writer.flush());
}

// Each edge in its turn, so that none is passed over for ever.
std::optional<Envelope> ShmTransport::receive() {
  owner_.check();
  flush();
  for (std::size_t looked = 0; looked < edges_.size(); ++looked) {
    Edge& edge = edges_.front();
    edges_.splice(edges_.end(), edges_, edges_.begin());
    std::optional<Bytes> message = edge.reader.receive();
    throw_if_error(edge.reader.failure());
    if (message) return Envelope{edge.peer, std::move(*message)};
  }
  return std::nullopt;
}

bool ShmTransport::quiet() const {
  owner_.check();
  return !local_peers_->has_news() && std::ranges::all_of(edges_, [](const Edge& edge) {
    return edge.writer.empty() && edge.reader.nothing_has_come();
  });
}

void ShmTransport::flush() {
  for (Edge& edge : edges_) {
    if (!edge.writer.empty()) throw_if_error(edge.writer.flush());
  }
}

}  // namespace rueda
