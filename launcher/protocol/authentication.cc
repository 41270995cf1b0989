// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/authentication.h"

#include <fmt/format.h>
#include <sodium.h>

#include <charconv>
#include <cstring>
#include <stdexcept>

namespace rueda {
namespace {

static_assert(crypto_auth_hmacsha256_BYTES == sizeof(Proof));

template <class Block>
Block random_block() {
  if (sodium_init() < 0) throw std::runtime_error("libsodium does not start: no source of random numbers");
  Block block;
  randombytes_buf(block.data(), block.size());
  return block;
}

const unsigned char* raw(const auto& block) { return reinterpret_cast<const unsigned char*>(block.data()); }

}  // namespace

Token random_token() { return random_block<Token>(); }
Nonce random_nonce() { return random_block<Nonce>(); }

std::string to_text(const Token& token) {
  std::string text;
  for (std::byte byte : token) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::optional<Token> token_from(std::string_view text) {
  Token token{};
  if (text.size() != 2 * token.size()) return std::nullopt;
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::uint8_t value = 0;
    const char* digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
    token[i] = std::byte{value};
  }
  return token;
}

Proof prove(const Token& token, Role prover, std::int32_t rank, const Nonce& of_agent,
            const Nonce& of_supervisor) {
  const unsigned char role = static_cast<unsigned char>(prover);
  std::array<unsigned char, sizeof rank> number{};
  std::memcpy(number.data(), &rank, sizeof rank);
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, raw(token), token.size());
  crypto_auth_hmacsha256_update(&state, &role, 1);
  crypto_auth_hmacsha256_update(&state, number.data(), number.size());
  crypto_auth_hmacsha256_update(&state, raw(of_agent), of_agent.size());
  crypto_auth_hmacsha256_update(&state, raw(of_supervisor), of_supervisor.size());
  Proof proof;
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  return proof;
}

bool same(const Proof& a, const Proof& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace rueda
