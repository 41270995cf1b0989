// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/tcp_components.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/system/record_cipher.h"
#include "core/control/messages/control_message.h"
#include "ops/algorithms/link_backend.h"
#include "ops/link/peer_info.h"
#include "ops/sockets/tcp_socket.h"
#include "ops/tcp/connect/listener.h"
#include "ops/tcp/tcp_link.h"
#include "ops/tcp/tcp_transport.h"

namespace rueda {
namespace {

// A network that somebody has chosen for MPI is the quicker one. Returns the words that chose it; empty if
// MPI uses TCP.
std::string other_network() {
  const char* provider = std::getenv("FI_PROVIDER");
  const char* module = std::getenv("MPIR_CVAR_CH4_NETMOD");
  if (module != nullptr && std::string_view(module) == "ucx") return "MPIR_CVAR_CH4_NETMOD=ucx";
  if (provider != nullptr && std::string_view(provider).find("tcp") == std::string_view::npos)
    return fmt::format("FI_PROVIDER={}", provider);
  return "";
}

TcpSettings settings_of(const Config& config) {
  TcpSettings settings;
  settings.deadline = config.network_deadline;
  settings.cards = cards_in(config.rails);
  settings.encrypted = config.encrypt;
  return settings;
}

// For other hosts. None where data is left to MPI, and on a job of one host: then `why`.
std::shared_ptr<TcpListener> open_door(const RuntimeComponents& components, const TcpUse& use,
                                       std::string& why) {
  const Config& config = components.config;
  if (config.network == "mpi") {
    why = "RUEDA_NETWORK=mpi";
  } else if (config.network == "auto" && !use.only_link) {
    why = other_network();
  }
  if (use.only_link && !why.empty())
    throw BackendError(
        Status::backend_error("RUEDA_NETWORK=mpi, but this job is started without MPI. Set "
                              "RUEDA_BOOTSTRAP=mpi, or another network."));
  const bool needed = config.network == "tcp" || !config.rails.empty() || config.encrypt;
  if (config.encrypt && !why.empty() && !use.one_host)
    throw BackendError(Status::backend_error(
        fmt::format("RUEDA_ENCRYPT=1 encrypts data that tcp sends, but it goes by mpi, because {}. Set "
                    "RUEDA_NETWORK=tcp on every rank.",
                    why)));
  if (!why.empty() || use.one_host) return nullptr;
  TcpListener::Opened opened = TcpListener::open(settings_of(config));
  if (opened.door) return std::move(opened.door);
  if (needed) throw BackendError(opened.status);
  why = std::move(opened.status.message);
  return nullptr;
}

// For ranks of this host alone.
std::shared_ptr<TcpListener> open_on_loopback(const Config& config) {
  TcpSettings settings = settings_of(config);
  settings.cards = {"127.0.0.1"};
  TcpListener::Opened opened = TcpListener::open(settings);
  if (opened.door) return std::move(opened.door);
  settings.cards = {"::1"};
  TcpListener::Opened other = TcpListener::open(settings);
  if (!other.door) throw BackendError(opened.status);
  return std::move(other.door);
}

bool several_hosts(const Welcome& welcome) {
  return std::ranges::any_of(welcome.hosts,
                             [&](const std::string& host) { return host != welcome.hosts[0]; });
}

// Purpose: TCP between the start of a rank and its first Plan. Shared by the functions of RuntimeComponents;
// used by the background thread.
struct TcpStart {
  Rank rank = 0;
  bool needed = false;  // no other network will do
  std::string why;      // there is no door
  std::shared_ptr<TcpListener> door;
  std::shared_ptr<TcpListener> loopback;  // where TCP is the only link
  std::shared_ptr<TcpLink> link;
  TcpTransport* transport = nullptr;  // of the parts; lives as long as their background thread
  bool connected = false;

  // On one host no rank has to be connected from the start.
  void connect_on_host(const Welcome& welcome) {
    const std::shared_ptr<TcpListener> own = std::exchange(loopback, nullptr);
    only_link = true;
    if (several_hosts(welcome)) return;
    link->dial_on_demand(own->dial_on_demand(rank, welcome.hosts, welcome.peer_infos));
    connected = true;
  }

  void connect(const Welcome& welcome, const RuntimeComponents::Alive& alive) {
    const std::shared_ptr<TcpListener> own = std::exchange(door, nullptr);
    if (!several_hosts(welcome)) return;
    const auto without = std::ranges::find(welcome.peer_infos, std::string());
    if (without != welcome.peer_infos.end()) {
      return leave_to_mpi(welcome, static_cast<Rank>(without - welcome.peer_infos.begin()));
    }
    const std::set<Rank> neighbours = control_neighbours(rank, welcome.hosts);
    TcpListener::Connections connections =
        own->connect(rank, welcome.hosts, welcome.peer_infos, neighbours, alive);
    throw_if_error(connections.status);
    if (rank == 0)
      notice("data between hosts: tcp over " + cards_of(connections.rails, welcome.hosts) +
             ciphers_of(connections.rails, welcome.hosts));
    for (auto& [peer, rails] : connections.rails) link->connect(peer, std::move(rails));
    link->dial_on_demand(std::move(connections.dialer));
    connected = true;
    transport->connect(neighbours);
  }

  // "2 cards (eth0, eth1)", and to which hosts only some of them: those may have fewer, or did not answer.
  static std::string cards_of(const std::map<Rank, std::vector<ConnectedRail>>& all,
                              const std::vector<std::string>& hosts) {
    std::map<std::string, std::vector<std::string>> by_host;
    std::vector<std::string> most;
    for (const auto& [peer, rails] : all) {
      if (hosts[peer] == hosts[0]) continue;
      std::vector<std::string> names;
      for (const ConnectedRail& rail : rails) names.push_back(own_card(rail.socket));
      if (names.size() > most.size()) most = names;
      by_host[hosts[peer]] = std::move(names);
    }
    std::string words =
        fmt::format("{} card{} ({})", most.size(), most.size() == 1 ? "" : "s", fmt::join(most, ", "));
    for (const auto& [host, names] : by_host) {
      if (names.size() < most.size()) words += fmt::format("; to {} {} only", host, fmt::join(names, ", "));
    }
    return words;
  }

  // "; encryption: AES-256-GCM", and "none" for hosts of which neither side has asked for it.
  static std::string ciphers_of(const std::map<Rank, std::vector<ConnectedRail>>& all,
                                const std::vector<std::string>& hosts) {
    std::set<Cipher> ciphers;
    for (const auto& [peer, rails] : all) {
      if (hosts[peer] == hosts[0]) continue;
      for (const ConnectedRail& rail : rails)
        ciphers.insert(rail.keys.encrypted ? rail.keys.cipher : Cipher::none);
    }
    if (ciphers == std::set{Cipher::none}) return "";
    std::vector<std::string_view> names;
    for (const Cipher cipher : ciphers) names.push_back(to_string(cipher));
    return fmt::format("; encryption: {}", fmt::join(names, ", "));
  }

  bool only_link = false;  // there is no MPI

  void leave_to_mpi(const Welcome& welcome, Rank without) const {
    if (needed || only_link) {
      throw BackendError(Status::backend_error(
          fmt::format("data between hosts goes by tcp, but rank {} on {} has no network card, or another "
                      "RUEDA_NETWORK. Set it alike on every rank.",
                      without, welcome.hosts[without])));
    }
    if (rank != 0) return;
    const std::string reason =
        without == 0 ? why
                     : fmt::format("rank {} on {} has no network card, or another RUEDA_NETWORK", without,
                                   welcome.hosts[without]);
    notice(fmt::format("data between hosts: mpi, because {}", reason));
  }
};

}  // namespace

void add_tcp(RuntimeComponents& components, const TcpUse& use, Memory memory) {
  auto start = std::make_shared<TcpStart>();
  start->rank = components.rank;
  start->needed = components.config.network == "tcp" || components.config.encrypt;
  start->door = open_door(components, use, start->why);
  if (use.only_link) start->loopback = open_on_loopback(components.config);
  start->link = std::make_shared<TcpLink>(components.rank);
  auto transport =
      std::make_unique<TcpTransport>(components.rank, std::move(components.transport), start->link);
  start->transport = transport.get();
  components.transport = std::move(transport);
  components.backends.insert(
      components.backends.begin(),
      std::make_unique<LinkBackend>(
          "tcp", start->link, components.rank, false, std::move(memory), [start] { return start->connected; },
          AlgorithmSelector("tcp", components.config)));
  components.silence = [link = start->link](Rank lost) { return link->silence(lost); };
  if (use.only_link)
    add_peer_info(components, start->loopback->endpoint(),
                  [start](const Welcome& welcome, const RuntimeComponents::Alive&) {
                    start->connect_on_host(welcome);
                  });
  add_peer_info(components, start->door ? start->door->endpoint() : "",
                [start](const Welcome& welcome, const RuntimeComponents::Alive& alive) {
                  start->connect(welcome, alive);
                });
}

}  // namespace rueda
