// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/root_address.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "core/base/system/hex.h"

namespace rueda {
namespace {

class StoredAddress final : public RootAddress {
 public:
  StoredAddress(std::shared_ptr<KeyValueStore> store, std::string key)
      : store_(std::move(store)), key_(std::move(key)) {}

  void publish(const TcpEndpoint& endpoint) override {
    value_ = to_text(endpoint);
    store_->set(key_, value_);
  }
  // An older job may have left another value, or half of one: it is looked at again.
  std::optional<TcpEndpoint> look() override {
    const std::optional<std::string> text = store_->get(key_);
    return text ? endpoint_from_text(*text) : std::nullopt;
  }
  void retire() override { store_->retire(key_, value_); }
  bool may_block() const override { return store_->may_block(); }
  std::string in_words() const override { return store_->in_words(); }

 private:
  std::shared_ptr<KeyValueStore> store_;
  std::string key_;
  std::string value_;  // on rank 0
};

class KnownAddress final : public RootAddress {
 public:
  KnownAddress(std::string host, std::uint16_t port, const TcpSecret& secret)
      : host_(std::move(host)), port_(port), secret_(secret) {}

  void publish(const TcpEndpoint&) override {}
  // A name may get its address only when rank 0 has started, as in Kubernetes.
  std::optional<TcpEndpoint> look() override {
    std::vector<TcpAddress> addresses = addresses_of(host_, port_);
    if (addresses.empty()) return std::nullopt;
    return TcpEndpoint{secret_, std::move(addresses)};
  }
  bool may_block() const override { return !socket_address({host_, port_}); }
  std::string in_words() const override { return fmt::format("{}:{}", host_, port_); }

 private:
  std::string host_;
  std::uint16_t port_;
  TcpSecret secret_;
};

class EndpointAddress final : public RootAddress {
 public:
  explicit EndpointAddress(TcpEndpoint endpoint) : endpoint_(std::move(endpoint)) {}

  void publish(const TcpEndpoint&) override {}
  std::optional<TcpEndpoint> look() override { return endpoint_; }
  bool may_block() const override { return false; }
  std::string in_words() const override {
    return endpoint_.addresses.empty() ? "no address" : to_string(endpoint_.addresses.front());
  }

 private:
  TcpEndpoint endpoint_;
};

}  // namespace

std::string to_text(const TcpEndpoint& endpoint) {
  const std::string bytes = to_bytes(endpoint);
  return to_hex(std::as_bytes(std::span(bytes)));
}

std::optional<TcpEndpoint> endpoint_from_text(std::string_view text) {
  const std::optional<Bytes> bytes = from_hex(text);
  if (!bytes) return std::nullopt;
  return tcp_endpoint_from({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
}

std::unique_ptr<RootAddress> address_in_store(std::shared_ptr<KeyValueStore> store, std::string key) {
  return std::make_unique<StoredAddress>(std::move(store), std::move(key));
}

std::unique_ptr<RootAddress> known_address(std::string host, std::uint16_t port, const TcpSecret& secret) {
  return std::make_unique<KnownAddress>(std::move(host), port, secret);
}

std::unique_ptr<RootAddress> address_of_endpoint(TcpEndpoint endpoint) {
  return std::make_unique<EndpointAddress>(std::move(endpoint));
}

std::vector<TcpAddress> addresses_of(const std::string& host, std::uint16_t port) {
  std::vector<TcpAddress> addresses;
  addrinfo wanted{}, *first = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &first) != 0) return addresses;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, ::freeaddrinfo);
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    SocketAddress address;
    address.length = std::min<socklen_t>(each->ai_addrlen, sizeof address.storage);
    std::memcpy(&address.storage, each->ai_addr, address.length);
    const TcpAddress found{in_digits(address), port};
    if (!found.host.empty() && addresses.size() < TcpEndpoint::kMostAddresses &&
        std::ranges::find(addresses, found) == addresses.end())
      addresses.push_back(found);
  }
  return addresses;
}

}  // namespace rueda
