// SPDX-License-Identifier: Apache-2.0
// Two processes prove to each other by these that they belong to one job.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>

namespace rueda {

// Before any other use of libsodium, on any thread. Throws std::runtime_error.
void start_libsodium();

// Both sides know a key, which never travels between them. Each sends a fresh Nonce, and a Proof: a keyed
// hash (HMAC-SHA256) over all that the two have said.
using AuthenticationKey = std::array<std::byte, 16>;
using Nonce = std::array<std::byte, 16>;
using Proof = std::array<std::byte, 32>;

AuthenticationKey random_key();
Nonce random_nonce();

// Two processes that have sent each other their public keys have a secret that nobody else knows, not even
// one that learns the AuthenticationKey later (X25519).
using PublicKey = std::array<std::byte, 32>;
struct ExchangeKeys {
  std::array<std::byte, 32> own{};  // never travels
  PublicKey open{};
};
ExchangeKeys random_exchange_keys();
// Nothing where `theirs` is no public key.
std::optional<std::array<std::byte, 32>> shared_secret(const ExchangeKeys& ours, const PublicKey& theirs);

// Over the parts, one after the other.
Proof prove(const AuthenticationKey& key, std::initializer_list<std::span<const std::byte>> parts);
// In a time that does not tell where they differ.
bool same(const Proof& a, const Proof& b);

}  // namespace rueda
