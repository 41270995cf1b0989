// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/connect/handshake.h"

#include <cstddef>
#include <span>

namespace rueda {
namespace {

enum class Side : unsigned char { connecting = 1, listening = 2 };

Proof prove(const TcpSecret& secret, Side side, const TcpHello& hello) {
  const auto proved = std::as_bytes(std::span(&hello, 1)).first<offsetof(TcpHello, proof)>();
  return rueda::prove(secret, {std::as_bytes(std::span(&side, 1)), proved});
}

}  // namespace

TcpHello make_hello(const TcpSecret& secret, Rank from, Rank to, std::size_t from_card, std::size_t to_card) {
  TcpHello hello;
  hello.from = from;
  hello.to = to;
  hello.from_card = static_cast<std::uint32_t>(from_card);
  hello.to_card = static_cast<std::uint32_t>(to_card);
  hello.nonce = random_nonce();
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
