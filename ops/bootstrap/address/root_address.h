// SPDX-License-Identifier: Apache-2.0
// How ranks learn where rank 0 listens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ops/bootstrap/address/key_value_store.h"
#include "ops/sockets/endpoint.h"

namespace rueda {

// Purpose: rank 0 publishes its endpoint, and all others look for it. Used by one thread at a time.
class RootAddress {
 public:
  virtual ~RootAddress() = default;
  // On rank 0, once it listens. Throws BackendError.
  virtual void publish(const TcpEndpoint& endpoint) = 0;
  // On rank 0, afterwards: whether the others can see it. Does not wait.
  virtual bool settled() { return true; }
  // On the others, again and again. Nothing as long as rank 0 has published nothing, and while that
  // cannot be reached. Throws BackendError where it never will be.
  virtual std::optional<TcpEndpoint> look() = 0;
  // Whether look() may take longer than some milliseconds.
  virtual bool may_block() const { return true; }
  // Once all ranks are connected, on rank 0.
  virtual void retire() {}
  // Names the address's location for messages: "the file /shared/job/root-0".
  virtual std::string in_words() const = 0;
};

// Under a key of a store.
std::unique_ptr<RootAddress> address_in_store(std::shared_ptr<KeyValueStore> store, std::string key);

// At a host and a port that all ranks know already; `secret` is that of the job. A host may be a name that
// gets its address later.
std::unique_ptr<RootAddress> known_address(std::string host, std::uint16_t port, const TcpSecret& secret);

// One that this rank knows already.
std::unique_ptr<RootAddress> address_of_endpoint(TcpEndpoint endpoint);

// An endpoint as a text of hexadecimal digits, and back; nothing where it is none.
std::string to_text(const TcpEndpoint& endpoint);
std::optional<TcpEndpoint> endpoint_from_text(std::string_view text);

// The numeric addresses of a host name, or of an address in digits; empty where it has none (yet).
std::vector<TcpAddress> addresses_of(const std::string& host, std::uint16_t port);

}  // namespace rueda
