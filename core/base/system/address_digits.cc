// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/address_digits.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>

namespace rueda {

std::string digits_of(const sockaddr* address) {
  if (address == nullptr) return "";
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* host = nullptr;
  if (address->sa_family == AF_INET) host = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (address->sa_family == AF_INET6) {
    const in6_addr& host6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&host6)) host = &host6;
  }
  if (host == nullptr || ::inet_ntop(address->sa_family, host, text.data(), text.size()) == nullptr)
    return "";
  return text.data();
}

}  // namespace rueda
