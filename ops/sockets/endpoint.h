// SPDX-License-Identifier: Apache-2.0
// The addresses and the secret by which other ranks connect to a rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/system/authentication.h"
#include "ops/sockets/tcp_address.h"

namespace rueda {

using TcpSecret = AuthenticationKey;

// The endpoint of a listening rank, one address for each network card. Ranks of this job know the secret.
struct TcpEndpoint {
  static constexpr std::size_t kMostAddresses = 16;

  TcpSecret secret{};
  std::vector<TcpAddress> addresses;
  friend bool operator==(const TcpEndpoint&, const TcpEndpoint&) = default;
};

std::string to_bytes(const TcpEndpoint& endpoint);
// Nothing when the bytes are not exactly one endpoint that can be.
std::optional<TcpEndpoint> tcp_endpoint_from(std::string_view bytes);

}  // namespace rueda
