// SPDX-License-Identifier: Apache-2.0
// How both ends of a new connection prove to each other that they belong to the same job.
#pragma once

#include <cstdint>

#include "core/base/system/authentication.h"
#include "ops/sockets/endpoint.h"
#include "rueda/types.h"

namespace rueda {

// The first words of the connecting side. The proof is a keyed hash over all the rest; the key is the secret
// of the listening side, which never travels here.
struct TcpHello {
  static constexpr std::uint32_t kMagic = 0x48656452;  // "RdeH"
  static constexpr std::uint32_t kVersion = 1;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  Rank from = 0;
  Rank to = 0;
  std::uint32_t from_card = 0;  // which address of each card
  std::uint32_t to_card = 0;
  Nonce nonce{};
  Proof proof{};
};
// The answer: a proof over the same, as the listening side.
struct TcpAnswer {
  Proof proof{};
};
// At last, of each connection that is kept: which rail it is, of how many.
struct Settled {
  std::uint32_t rail = 0;
  std::uint32_t rails = 0;
};
static_assert(sizeof(TcpHello) == 72 && sizeof(TcpAnswer) == 32 && sizeof(Settled) == 8);

// With a fresh nonce, and its proof.
TcpHello make_hello(const TcpSecret& secret, Rank from, Rank to, std::size_t from_card, std::size_t to_card);
TcpAnswer answer_to(const TcpHello& hello, const TcpSecret& secret);

bool proves(const TcpHello& hello, const TcpSecret& secret);
bool proves(const TcpAnswer& answer, const TcpHello& hello, const TcpSecret& secret);

}  // namespace rueda
