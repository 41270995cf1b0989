// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/connect/listener.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/time.h"
#include "ops/sockets/tcp_socket.h"

namespace rueda {
namespace {

constexpr std::string_view kRemedy =
    "Make sure that no firewall stands between these cards, or name the cards that connect all hosts "
    "(RUEDA_RAILS)";

Status unreadable(Rank rank, Rank peer, std::span<const std::string> hosts) {
  return Status::backend_error(fmt::format(
      "rank {} cannot read the TCP addresses of rank {} on {}. Both must run the same version of Rueda", rank,
      peer, hosts[peer]));
}

// Of a peer that is not connected.
Status no_way(const TcpDialer::Missing& missing, Rank rank, std::span<const std::string> hosts,
              const TcpEndpoint& own, double deadline) {
  if (missing.tried)
    return Status::backend_error(
        fmt::format("rank {} on {} found no way by TCP to rank {} on {} within {} s; it tried {}. {}", rank,
                    hosts[rank], missing.peer, hosts[missing.peer], deadline, *missing.tried, kRemedy));
  return Status::backend_error(fmt::format(
      "rank {} on {} was not reached by TCP by rank {} on {} within {} s; it listened at {}. {}", rank,
      hosts[rank], missing.peer, hosts[missing.peer], deadline, in_words(own.addresses), kRemedy));
}

std::string_view remedy_of_listener(int error) {
  const std::string_view of_files = remedy_for_open_files(error);
  return of_files.empty() ? "Name cards or addresses that this host has (RUEDA_RAILS)" : of_files;
}

}  // namespace

TcpListener::Opened TcpListener::open(const TcpSettings& settings) {
  OwnAddresses own = own_addresses(settings.cards);
  if (!own.status.ok()) return {nullptr, std::move(own.status)};
  if (own.addresses.size() > TcpEndpoint::kMostAddresses) own.addresses.resize(TcpEndpoint::kMostAddresses);
  auto door = std::make_unique<TcpListener>(Key{}, settings);
  door->endpoint_.secret = random_key();
  for (const TcpAddress& address : own.addresses) {
    OpenedSocket opened = listen_at(address);
    if (!opened.socket)
      return {nullptr, Status::backend_error(fmt::format("cannot listen at {}: {}. {}", address.host,
                                                         std::generic_category().message(opened.error),
                                                         remedy_of_listener(opened.error)))};
    door->endpoint_.addresses.push_back(address_of(opened.socket, address));
    door->listeners_.push_back(std::move(opened.socket));
  }
  return {std::move(door), {}};
}

std::unique_ptr<TcpDialer> TcpListener::dial_on_demand(Rank rank, std::span<const std::string> hosts,
                                                       std::span<const std::string> peer_infos) {
  std::vector<TcpEndpoint> endpoints;
  for (Rank peer = 0; peer < static_cast<Rank>(peer_infos.size()); ++peer) {
    std::optional<TcpEndpoint> endpoint = tcp_endpoint_from(peer_infos[peer]);
    if (!endpoint) throw BackendError(unreadable(rank, peer, hosts));
    endpoints.push_back(std::move(*endpoint));
  }
  return std::make_unique<TcpDialer>(rank, std::move(endpoints), std::move(listeners_),
                                     from_seconds(settings_.timeout), from_seconds(settings_.deadline),
                                     settings_.encrypted);
}

TcpListener::Connections TcpListener::connect(Rank rank, std::span<const std::string> hosts,
                                              std::span<const std::string> peer_infos,
                                              const std::set<Rank>& peers,
                                              const std::function<void()>& alive) {
  Connections connections;
  connections.dialer = dial_on_demand(rank, hosts, peer_infos);
  const Time begin = clock_now(), end = begin + from_seconds(settings_.deadline);
  for (const Rank peer : peers) connections.dialer->want(peer, begin);
  while (connections.dialer->busy()) {
    const Time now = clock_now();
    if (now > end)
      return {{}, nullptr, no_way(connections.dialer->missing(), rank, hosts, endpoint_, settings_.deadline)};
    connections.rails.merge(connections.dialer->progress(now));
    if (!connections.dialer->busy()) break;
    alive();
    connections.dialer->sleep();
  }
  return connections;
}

}  // namespace rueda
