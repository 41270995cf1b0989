// SPDX-License-Identifier: Apache-2.0
#include "ops/sockets/endpoint.h"

#include <algorithm>

#include "core/base/bytes.h"

namespace rueda {

std::string to_bytes(const TcpEndpoint& endpoint) {
  Writer writer;
  for (const std::byte byte : endpoint.secret) writer.put(byte);
  writer.put_count(endpoint.addresses.size());
  for (const TcpAddress& address : endpoint.addresses) {
    writer.put_string(address.host);
    writer.put(address.port);
  }
  const Bytes bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<TcpEndpoint> tcp_endpoint_from(std::string_view bytes) {
  Reader reader(std::as_bytes(std::span(bytes)));
  TcpEndpoint endpoint;
  for (std::byte& byte : endpoint.secret) byte = std::byte{reader.get<std::uint8_t>()};
  endpoint.addresses = reader.get_list<TcpAddress>(3, [](Reader& from) {
    TcpAddress address;
    address.host = from.get_string();
    address.port = from.get<std::uint16_t>();
    return address;
  });
  const auto can_be = [](const TcpAddress& address) {
    return address.port != 0 && socket_address(address).has_value();
  };
  if (!reader.complete() || endpoint.addresses.empty() ||
      endpoint.addresses.size() > TcpEndpoint::kMostAddresses ||
      !std::ranges::all_of(endpoint.addresses, can_be))
    return std::nullopt;
  return endpoint;
}

}  // namespace rueda
