// SPDX-License-Identifier: Apache-2.0
// The store of torchrun, as torch's TCPStore speaks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/system/descriptor.h"
#include "ops/bootstrap/address/key_value_store.h"

namespace rueda {

// Purpose: a client of the TCPStore that torchrun's agent serves at MASTER_ADDR:MASTER_PORT. The protocol has
// no authentication: everybody who reaches that port reads the values. An answer may take 5 s.
class TorchStore final : public KeyValueStore {
 public:
  TorchStore(std::string host, std::uint16_t port) : host_(std::move(host)), port_(port) {}

  void set(const std::string& key, const std::string& value) override;
  // Nothing also as long as the store cannot be reached.
  std::optional<std::string> get(const std::string& key) override;
  void remove(const std::string& key) override;
  std::string in_words() const override;

 private:
  bool connect();
  bool send(const Bytes& request);
  bool receive(MutableBytes bytes);
  [[noreturn]] void fail(std::string_view why);

  std::string host_;
  std::uint16_t port_;
  Descriptor socket_;
};

}  // namespace rueda
