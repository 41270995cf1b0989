// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/listener.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>
#include <system_error>

#include "core/base/number.h"

namespace rueda {
namespace {

constexpr std::size_t kMostAddresses = 64;

Descriptor tcp_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

template <class Address>
bool listens(const Descriptor& socket, const Address& address) {
  return socket &&
         ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket.number(), SOMAXCONN) == 0;
}

Descriptor listen_v4() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  Descriptor socket = tcp_socket(AF_INET);
  if (!listens(socket, address))
    throw std::system_error(errno, std::generic_category(), "cannot listen for the agents");
  return socket;
}

// Every address of the machine, of both kinds; an empty descriptor where there is no IPv6.
Descriptor listen_v6() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  Descriptor socket = tcp_socket(AF_INET6);
  const int both = 0;
  if (socket) ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
  return listens(socket, address) ? std::move(socket) : Descriptor();
}

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* host = nullptr;
  if (address->sa_family == AF_INET) host = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (address->sa_family == AF_INET6) {
    const in6_addr& host6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&host6)) host = &host6;  // such a one needs the name of a card, too
  }
  if (host == nullptr) return "";
  const char* written = ::inet_ntop(address->sa_family, host, text.data(), text.size());
  return written == nullptr ? "" : written;
}

std::string addresses_of_cards() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return "";
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  std::string all;
  std::size_t count = 1;
  for (const ifaddrs* card = first; card != nullptr && count < kMostAddresses; card = card->ifa_next) {
    bool usable =
        card->ifa_addr != nullptr && (card->ifa_flags & IFF_UP) != 0 && (card->ifa_flags & IFF_LOOPBACK) == 0;
    std::string address = usable ? text_of(card->ifa_addr) : "";
    if (address.empty()) continue;
    all += "," + address;
    ++count;
  }
  return all;
}

std::optional<Endpoint> endpoint_from(const std::string& host, std::uint16_t port) {
  Endpoint endpoint;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&endpoint.address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&endpoint.address);
  if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    endpoint.length = sizeof *v4;
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    endpoint.length = sizeof *v6;
  } else {
    return std::nullopt;
  }
  return endpoint;
}

}  // namespace

Descriptor listen_for_agents() {
  Descriptor both = listen_v6();
  return both ? std::move(both) : listen_v4();
}

std::string addresses_of(const Descriptor& listening) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(listening.number(), reinterpret_cast<sockaddr*>(&bound), &length);
  const std::uint16_t port = bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                         : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  const std::string cards = addresses_of_cards();
  return std::to_string(ntohs(port)) + (cards.empty() ? ",127.0.0.1" : cards);
}

std::vector<Endpoint> endpoints_from(const std::string& addresses) {
  std::vector<Endpoint> endpoints;
  std::istringstream list(addresses);
  std::string word;
  std::getline(list, word, ',');
  const auto port = number_from<std::uint16_t>(word).value_or(0);
  if (port == 0) return {};
  while (endpoints.size() < kMostAddresses && std::getline(list, word, ','))
    if (std::optional<Endpoint> endpoint = endpoint_from(word, port)) endpoints.push_back(*endpoint);
  return endpoints;
}

void keep_alive(const Descriptor& socket) {
  auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.number(), level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace rueda
