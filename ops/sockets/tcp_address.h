// SPDX-License-Identifier: Apache-2.0
// Addresses of network cards.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rueda/status.h"

namespace rueda {

// The address of a network card: an IPv4 or IPv6 address in digits.
struct TcpAddress {
  std::string host;
  std::uint16_t port = 0;
  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};

std::string to_string(const TcpAddress& address);             // "10.0.0.1:4242", "[fd00::2]:4242"
std::string in_words(std::span<const TcpAddress> addresses);  // "10.0.0.1, fd00::2", without ports

// As the system wants it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::uint16_t port() const;
};
std::optional<SocketAddress> socket_address(const TcpAddress& address);
std::string in_digits(const SocketAddress& address);  // without port; empty for one that is no card's

// The card here that has this address: "eth0"; the address itself where there is none.
std::string card_name(const std::string& host);

// The names or addresses in a list by commas, as RUEDA_RAILS has them.
std::vector<std::string> cards_in(const std::string& list);

// One address of each card that is up, IPv4 where it has one, without loopback; or of each of `cards`, names
// (eth0) or addresses, in this order. An error names those that are not there, and those that are.
struct OwnAddresses {
  std::vector<TcpAddress> addresses;
  Status status;
};
OwnAddresses own_addresses(std::span<const std::string> cards);

}  // namespace rueda
