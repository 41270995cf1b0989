// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/connect/listener.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/time.h"
#include "ops/tcp/connect/acceptor.h"
#include "ops/tcp/connect/connector.h"
#include "ops/tcp/connect/handshake.h"

namespace rueda {
namespace {

constexpr int kLongestSleep = 10;  // milliseconds; limits of time are looked at that often
constexpr std::string_view kRemedy =
    "Make sure that no firewall stands between these cards, or name the cards that connect all hosts "
    "(RUEDA_RAILS)";

struct Meeting {
  std::vector<TcpConnector> calls;
  TcpAcceptor guests;

  bool over() const { return guests.over() && std::ranges::all_of(calls, &TcpConnector::over); }
  void step(Time now) {
    guests.step(now);
    for (TcpConnector& call : calls) call.step(now);
  }
  // Until somebody says something.
  void sleep() const {
    std::vector<pollfd> sockets;
    guests.watch(sockets);
    for (const TcpConnector& call : calls) call.watch(sockets);
    ::poll(sockets.data(), sockets.size(), kLongestSleep);
  }
};

Status unreadable(Rank rank, Rank peer, std::span<const std::string> hosts) {
  return Status::backend_error(fmt::format(
      "rank {} cannot read the TCP addresses of rank {} on {}. Both must run the same version of Rueda", rank,
      peer, hosts[peer]));
}

// Who of the peers did not come, if somebody did not.
Status missing(const Meeting& meeting, Rank rank, std::span<const std::string> hosts, const TcpEndpoint& own,
               double deadline) {
  for (const TcpConnector& call : meeting.calls) {
    if (call.over()) continue;
    return Status::backend_error(
        fmt::format("rank {} on {} found no way by TCP to rank {} on {} within {} s; it tried {}. {}", rank,
                    hosts[rank], call.peer(), hosts[call.peer()], deadline, call.tried(), kRemedy));
  }
  if (meeting.guests.over()) return {};
  const Rank peer = meeting.guests.missing().first();
  return Status::backend_error(
      fmt::format("rank {} on {} was not reached by TCP by rank {} on {} within {} s; it listened at {}. {}",
                  rank, hosts[rank], peer, hosts[peer], deadline, in_words(own.addresses), kRemedy));
}

}  // namespace

TcpListener::Opened TcpListener::open(const TcpSettings& settings) {
  OwnAddresses own = own_addresses(settings.cards);
  if (!own.status.ok()) return {nullptr, std::move(own.status)};
  if (own.addresses.size() > TcpEndpoint::kMostAddresses) own.addresses.resize(TcpEndpoint::kMostAddresses);
  auto door = std::make_unique<TcpListener>(Key{}, settings);
  door->card_.secret = random_key();
  for (const TcpAddress& address : own.addresses) {
    OpenedSocket opened = listen_at(address);
    if (!opened.socket)
      return {nullptr,
              Status::backend_error(fmt::format(
                  "cannot listen at {}: {}. Name cards or addresses that this host has (RUEDA_RAILS)",
                  address.host, std::generic_category().message(opened.error)))};
    door->card_.addresses.push_back(address_of(opened.socket, address));
    door->listeners_.push_back(std::move(opened.socket));
  }
  return {std::move(door), {}};
}

std::unique_ptr<TcpDialer> TcpListener::dial_on_demand(Rank rank, std::span<const std::string> hosts,
                                                       std::span<const std::string> cards) {
  std::vector<TcpEndpoint> endpoints;
  for (Rank peer = 0; peer < static_cast<Rank>(cards.size()); ++peer) {
    std::optional<TcpEndpoint> endpoint = tcp_endpoint_from(cards[peer]);
    if (!endpoint) throw BackendError(unreadable(rank, peer, hosts));
    endpoints.push_back(std::move(*endpoint));
  }
  return std::make_unique<TcpDialer>(rank, std::move(endpoints), std::move(listeners_),
                                     from_seconds(settings_.patience), from_seconds(settings_.deadline),
                                     settings_.encrypted);
}

TcpListener::Met TcpListener::meet(Rank rank, std::span<const std::string> hosts,
                                   std::span<const std::string> cards, const RankSet& peers,
                                   const std::function<void()>& alive) {
  const Duration patience = from_seconds(settings_.patience);
  const RankSet lower = peers & RankSet(0, rank);
  Meeting meeting{{}, TcpAcceptor(rank, card_.secret, listeners_, lower, patience, settings_.encrypted)};
  for (Rank i = lower.count(); i < peers.count(); ++i) {
    const Rank peer = peers.at(i);
    std::optional<TcpEndpoint> theirs = tcp_endpoint_from(cards[peer]);
    if (!theirs) return {{}, unreadable(rank, peer, hosts)};
    meeting.calls.emplace_back(rank, peer, card_.addresses, std::move(*theirs), patience,
                               settings_.encrypted);
  }

  const Time end = clock_now() + from_seconds(settings_.deadline);
  for (meeting.step(clock_now()); !meeting.over() && clock_now() < end; meeting.step(clock_now())) {
    alive();
    meeting.sleep();
  }
  listeners_.clear();
  Met met{meeting.guests.take_rails(), missing(meeting, rank, hosts, card_, settings_.deadline)};
  if (!met.status.ok()) return {{}, std::move(met.status)};
  for (TcpConnector& call : meeting.calls) met.rails[call.peer()] = call.take_rails();
  for (const auto& [peer, rails] : met.rails) {
    for (const ConnectedRail& rail : rails) prepare_for_data(rail.socket, from_seconds(settings_.deadline));
  }
  return met;
}

}  // namespace rueda
