// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/connect/handshake.h"

#include <sodium.h>

#include <cstddef>
#include <stdexcept>

namespace rueda {
namespace {

static_assert(crypto_auth_hmacsha256_BYTES == sizeof(TcpProof));

enum class Side : unsigned char { connecting = 1, listening = 2 };

const unsigned char* raw(const auto& value) { return reinterpret_cast<const unsigned char*>(&value); }

void fill_with_chance(auto& block) {
  if (sodium_init() < 0) throw std::runtime_error("libsodium does not start: no source of random numbers");
  randombytes_buf(block.data(), block.size());
}

TcpProof prove(const TcpSecret& secret, Side side, const TcpHello& hello) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, raw(secret), sizeof secret);
  crypto_auth_hmacsha256_update(&state, raw(side), sizeof side);
  crypto_auth_hmacsha256_update(&state, raw(hello), offsetof(TcpHello, proof));
  TcpProof proof;
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  return proof;
}

bool same(const TcpProof& a, const TcpProof& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace

TcpSecret random_secret() {
  TcpSecret secret;
  fill_with_chance(secret);
  return secret;
}

TcpHello make_hello(const TcpSecret& secret, Rank from, Rank to, std::size_t from_card, std::size_t to_card) {
  TcpHello hello;
  hello.from = from;
  hello.to = to;
  hello.from_card = static_cast<std::uint32_t>(from_card);
  hello.to_card = static_cast<std::uint32_t>(to_card);
  fill_with_chance(hello.nonce);
  hello.proof = prove(secret, Side::connecting, hello);
  return hello;
}

TcpAnswer answer_to(const TcpHello& hello, const TcpSecret& secret) {
  return {prove(secret, Side::listening, hello)};
}

bool proves(const TcpHello& hello, const TcpSecret& secret) {
  return hello.magic == TcpHello::kMagic && hello.version == TcpHello::kVersion &&
         same(hello.proof, prove(secret, Side::connecting, hello));
}

bool proves(const TcpAnswer& answer, const TcpHello& hello, const TcpSecret& secret) {
  return same(answer.proof, prove(secret, Side::listening, hello));
}

}  // namespace rueda
