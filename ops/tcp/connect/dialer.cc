// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/connect/dialer.h"

#include <fmt/format.h>
#include <poll.h>

#include <stdexcept>
#include <utility>

#include "ops/sockets/tcp_socket.h"

namespace rueda {

TcpDialer::TcpDialer(Rank rank, std::vector<TcpEndpoint> endpoints, std::vector<Descriptor> listeners,
                     Duration timeout, Duration deadline, bool encrypted)
    : rank_(rank),
      endpoints_(std::move(endpoints)),
      listeners_(std::move(listeners)),
      timeout_(timeout),
      deadline_(deadline),
      encrypted_(encrypted),
      acceptor_(rank, endpoints_.at(rank).secret, listeners_, RankSet(0, rank), timeout, encrypted) {}

void TcpDialer::want(Rank peer, Time now) {
  wanted_.emplace(peer, now);
  if (peer > rank_)
    connectors_.try_emplace(peer, rank_, peer, endpoints_.at(rank_).addresses, endpoints_.at(peer), timeout_,
                            encrypted_);
}

std::map<Rank, std::vector<ConnectedRail>> TcpDialer::progress(Time now) {
  std::map<Rank, std::vector<ConnectedRail>> fresh;
  if (!busy()) return fresh;
  acceptor_.step(now);
  fresh = acceptor_.take_complete();
  for (auto each = connectors_.begin(); each != connectors_.end();) {
    each->second.step(now);
    if (each->second.over()) fresh[each->first] = each->second.take_rails();
    each = fresh.contains(each->first) ? connectors_.erase(each) : std::next(each);
  }
  for (auto& [peer, rails] : fresh) {
    wanted_.erase(peer);
    for (const ConnectedRail& rail : rails) prepare_for_data(rail.socket, deadline_);
  }
  for (auto& [peer, connector] : connectors_) {
    if (connector.connected()) wanted_[peer] = now;
    if (now - wanted_[peer] > deadline_) give_up(connector);
  }
  return fresh;
}

void TcpDialer::sleep() const {
  constexpr int kLongestSleep = 10;  // milliseconds; limits of time are looked at that often
  std::vector<pollfd> sockets;
  acceptor_.watch(sockets);
  for (const auto& [peer, connector] : connectors_) connector.watch(sockets);
  ::poll(sockets.data(), sockets.size(), kLongestSleep);
}

TcpDialer::Missing TcpDialer::missing() const {
  if (connectors_.empty()) return {wanted_.begin()->first, std::nullopt};
  return {connectors_.begin()->first, connectors_.begin()->second.tried()};
}

void TcpDialer::give_up(const TcpConnector& connector) const {
  throw std::runtime_error(fmt::format("rank {} found no way by TCP to rank {} within {} s; it tried {}",
                                       rank_, connector.peer(),
                                       std::chrono::duration<double>(deadline_).count(), connector.tried()));
}

}  // namespace rueda
