// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/connect/handshake.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace rueda {
namespace {

using Side = HandshakeSide;

template <class Block>
ConstBytes without_proof(const Block& block) {
  return std::as_bytes(std::span(&block, 1)).template first<offsetof(Block, proof)>();
}

Proof prove(const TcpSecret& secret, const TcpHello& hello) {
  constexpr Side kSide = Side::connecting;
  return rueda::prove(secret, {std::as_bytes(std::span(&kSide, 1)), without_proof(hello)});
}

Proof prove(const TcpSecret& secret, const TcpHello& hello, const TcpAnswer& answer) {
  constexpr Side kSide = Side::listening;
  return rueda::prove(secret,
                      {std::as_bytes(std::span(&kSide, 1)), without_proof(hello), without_proof(answer)});
}

Proof prove(const RailKeys& keys, const Settled& settled) {
  return rueda::prove(keys.settling, {without_proof(settled)});
}

Cipher cipher_for(const TcpHello& hello) {
  const bool aes = hello.best == Cipher::aes256_gcm && best_cipher() == Cipher::aes256_gcm;
  return aes ? Cipher::aes256_gcm : Cipher::chacha20_poly1305;
}

}  // namespace

TcpHello make_hello(const TcpSecret& secret, Rank from, Rank to, std::size_t from_card, std::size_t to_card,
                    const PublicKey& exchange, bool encrypted) {
  TcpHello hello;
  hello.from = from;
  hello.to = to;
  hello.from_card = static_cast<std::uint32_t>(from_card);
  hello.to_card = static_cast<std::uint32_t>(to_card);
  hello.best = best_cipher();
  hello.encrypted = encrypted ? 1 : 0;
  hello.exchange = exchange;
  hello.nonce = random_nonce();
  hello.proof = prove(secret, hello);
  return hello;
}

TcpAnswer answer_to(const TcpHello& hello, const TcpSecret& secret, const PublicKey& exchange,
                    bool encrypted) {
  TcpAnswer answer;
  answer.exchange = exchange;
  answer.nonce = random_nonce();
  answer.cipher = cipher_for(hello);
  answer.encrypted = encrypted || hello.encrypted != 0 ? 1 : 0;
  answer.proof = prove(secret, hello, answer);
  return answer;
}

bool proves(const TcpHello& hello, const TcpSecret& secret) {
  return hello.magic == TcpHello::kMagic && hello.version == TcpHello::kVersion &&
         same(hello.proof, prove(secret, hello));
}

bool proves(const TcpAnswer& answer, const TcpHello& hello, const TcpSecret& secret) {
  return same(answer.proof, prove(secret, hello, answer));
}

Settled settled_as(std::size_t rail, std::size_t rails, const RailKeys& keys) {
  Settled settled{static_cast<std::uint32_t>(rail), static_cast<std::uint32_t>(rails), {}};
  settled.proof = prove(keys, settled);
  return settled;
}

bool proves(const Settled& settled, const RailKeys& keys) {
  return same(settled.proof, prove(keys, settled));
}

std::optional<RailKeys> keys_of(HandshakeSide own, const TcpHello& hello, const TcpAnswer& answer,
                                const TcpSecret& secret, const ExchangeKeys& exchange) {
  const bool connects = own == Side::connecting;
  const auto shared = shared_secret(exchange, connects ? answer.exchange : hello.exchange);
  if (!shared) return std::nullopt;
  const auto key = [&](std::string_view use, Side sender) {
    return rueda::prove(secret, {*shared, std::as_bytes(std::span(use)), std::as_bytes(std::span(&sender, 1)),
                                 without_proof(hello), without_proof(answer)});
  };
  const Side other = connects ? Side::listening : Side::connecting;
  RailKeys keys{answer.cipher,
                answer.encrypted != 0,
                {key("data of a rail", own), key("data of a rail", other)},
                {key("control messages", own), key("control messages", other)},
                {}};
  std::ranges::copy_n(key("choice of rails", Side::connecting).begin(), keys.settling.size(),
                      keys.settling.begin());
  return keys;
}

}  // namespace rueda
