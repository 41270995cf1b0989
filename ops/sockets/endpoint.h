// SPDX-License-Identifier: Apache-2.0
// What a rank tells the others so that they can connect to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/system/authentication.h"
#include "ops/sockets/tcp_address.h"

namespace rueda {

using TcpSecret = AuthenticationKey;

// Where a rank listens, one address for each of its network cards. Who knows the secret is of this job.
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
