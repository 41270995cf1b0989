// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/authentication.h"

#include <sodium.h>

#include <stdexcept>

namespace rueda {
namespace {

static_assert(crypto_auth_hmacsha256_BYTES == sizeof(Proof));

template <class Block>
Block random_block() {
  start_libsodium();
  Block block;
  randombytes_buf(block.data(), block.size());
  return block;
}

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

void start_libsodium() {
  if (sodium_init() < 0) throw std::runtime_error("libsodium does not start: no source of random numbers");
}

AuthenticationKey random_key() { return random_block<AuthenticationKey>(); }
Nonce random_nonce() { return random_block<Nonce>(); }

ExchangeKeys random_exchange_keys() {
  ExchangeKeys keys;
  keys.own = random_block<std::array<std::byte, 32>>();
  crypto_scalarmult_base(reinterpret_cast<unsigned char*>(keys.open.data()), raw(keys.own));
  return keys;
}

std::optional<std::array<std::byte, 32>> shared_secret(const ExchangeKeys& ours, const PublicKey& theirs) {
  std::array<std::byte, 32> secret;
  if (crypto_scalarmult(reinterpret_cast<unsigned char*>(secret.data()), raw(ours.own), raw(theirs)) != 0)
    return std::nullopt;
  return secret;
}

Proof prove(const AuthenticationKey& key, std::initializer_list<std::span<const std::byte>> parts) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, raw(key), key.size());
  for (const std::span<const std::byte> part : parts)
    crypto_auth_hmacsha256_update(&state, raw(part), part.size());
  Proof proof;
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  return proof;
}

bool same(const Proof& a, const Proof& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace rueda
