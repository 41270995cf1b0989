// SPDX-License-Identifier: Apache-2.0
#include "ops/sockets/tcp_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <sstream>

#include "core/base/system/address_digits.h"

namespace rueda {
namespace {

struct NetworkCard {
  std::string name;
  TcpAddress address;
  bool loopback = false;
};

bool is_v6(const std::string& host) { return host.find(':') != std::string::npos; }

// Every address of every card that is up.
std::vector<NetworkCard> cards_here() {
  std::vector<NetworkCard> cards;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return cards;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  for (const ifaddrs* card = first; card != nullptr; card = card->ifa_next) {
    if ((card->ifa_flags & IFF_UP) == 0) continue;
    if (std::string host = digits_of(card->ifa_addr); !host.empty())
      cards.push_back({card->ifa_name, {std::move(host), 0}, (card->ifa_flags & IFF_LOOPBACK) != 0});
  }
  // Those of IPv4 first; else in the order of the system, by card.
  std::stable_partition(cards.begin(), cards.end(),
                        [](const NetworkCard& card) { return !is_v6(card.address.host); });
  return cards;
}

// The first address of each card.
std::vector<NetworkCard> without_loopback(const std::vector<NetworkCard>& all) {
  std::vector<NetworkCard> cards;
  for (const NetworkCard& card : all) {
    if (!card.loopback && std::ranges::find(cards, card.name, &NetworkCard::name) == cards.end())
      cards.push_back(card);
  }
  return cards;
}

std::string names_of(const std::vector<NetworkCard>& cards) {
  std::string text;
  for (const NetworkCard& card : cards)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", card.name, card.address.host);
  return text.empty() ? "none" : text;
}

}  // namespace

std::string to_string(const TcpAddress& address) {
  const std::string host = is_v6(address.host) ? "[" + address.host + "]" : address.host;
  return fmt::format("{}:{}", host, address.port);
}

std::string in_words(std::span<const TcpAddress> addresses) {
  std::string text;
  for (const TcpAddress& address : addresses) text += (text.empty() ? "" : ", ") + address.host;
  return text;
}

std::uint16_t SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

std::optional<SocketAddress> socket_address(const TcpAddress& address) {
  SocketAddress result;
  auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(result.storage);
  if (::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    result.length = sizeof v4;
  } else if (::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    result.length = sizeof v6;
  } else {
    return std::nullopt;
  }
  return result;
}

std::string in_digits(const SocketAddress& address) { return digits_of(address.get()); }

std::string card_name(const std::string& host) {
  for (const NetworkCard& card : cards_here()) {
    if (card.address.host == host) return card.name;
  }
  return host;
}

std::vector<std::string> cards_in(const std::string& list) {
  std::vector<std::string> cards;
  std::istringstream words(list);
  for (std::string card; std::getline(words, card, ',');) {
    if (!card.empty()) cards.push_back(card);
  }
  return cards;
}

OwnAddresses own_addresses(std::span<const std::string> cards) {
  errno = 0;
  const std::vector<NetworkCard> all = cards_here();
  const bool too_many_files = all.empty() && errno == EMFILE;
  OwnAddresses own;
  for (const std::string& wanted : cards) {
    const auto found = std::ranges::find_if(
        all, [&](const NetworkCard& card) { return card.name == wanted || card.address.host == wanted; });
    if (found != all.end()) {
      own.addresses.push_back(found->address);
    } else if (socket_address({wanted, 0})) {
      own.addresses.push_back({wanted, 0});  // such as 127.0.0.2; if it is not here, it cannot be bound
    } else {
      own.status = Status::invalid_argument(
          fmt::format("there is no network card {} here that is up and has an address; there are {}", wanted,
                      names_of(all)));
      return own;
    }
  }
  if (cards.empty()) {
    for (NetworkCard& card : without_loopback(all)) own.addresses.push_back(std::move(card.address));
  }
  if (own.addresses.empty() && too_many_files) {
    own.status = Status::backend_error(
        "the network cards cannot be listed: too many files are open. Raise the limit of open files (ulimit "
        "-n)");
    return own;
  }
  if (own.addresses.empty())
    own.status = Status::backend_error(
        "no network card but loopback is up and has an address. Bring one up, or name the cards or addresses "
        "to use");
  return own;
}

}  // namespace rueda
