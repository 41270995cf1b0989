// SPDX-License-Identifier: Apache-2.0
// Both ends of a new connection prove to each other that they belong to the same job, and agree on keys.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/system/authentication.h"
#include "core/base/system/descriptor.h"
#include "core/base/system/record_cipher.h"
#include "ops/sockets/endpoint.h"
#include "rueda/types.h"

namespace rueda {

// The first words of the connecting side. The proof is a keyed hash over all the rest; the key is the secret
// of the listening side, which never travels here.
struct TcpHello {
  static constexpr std::uint32_t kMagic = 0x48656452;  // "RdeH"
  static constexpr std::uint32_t kVersion = 3;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  Rank from = 0;
  Rank to = 0;
  std::uint32_t from_card = 0;  // which address of each card
  std::uint32_t to_card = 0;
  Cipher best = Cipher::none;   // that this side can use
  std::uint32_t encrypted = 0;  // 1: this side wants data encrypted, too
  PublicKey exchange{};         // fresh
  Nonce nonce{};
  Proof proof{};
};
// The answer: a proof over the hello and the rest of this, as the listening side.
struct TcpAnswer {
  PublicKey exchange{};
  Nonce nonce{};
  Cipher cipher = Cipher::none;  // that both sides can use
  std::uint32_t encrypted = 0;   // 1: data, too, since one side wants it
  Proof proof{};
};
// At last, of each connection that is kept: which rail it is, of how many. The proof shows that its sender
// has made the hello: who repeats one that he has overheard does not get so far.
struct Settled {
  std::uint32_t rail = 0;
  std::uint32_t rails = 0;
  Proof proof{};
};
static_assert(sizeof(TcpHello) == 112 && sizeof(TcpAnswer) == 88 && sizeof(Settled) == 40);

// With a fresh nonce, and its proof. `exchange`: its public key is told.
TcpHello make_hello(const TcpSecret& secret, Rank from, Rank to, std::size_t from_card, std::size_t to_card,
                    const PublicKey& exchange, bool encrypted = false);
TcpAnswer answer_to(const TcpHello& hello, const TcpSecret& secret, const PublicKey& exchange,
                    bool encrypted = false);

bool proves(const TcpHello& hello, const TcpSecret& secret);
bool proves(const TcpAnswer& answer, const TcpHello& hello, const TcpSecret& secret);

// One end uses these from then on. They come from both nonces, and from the secret of both public keys: who
// learns the secret of the job later, or on its way over MPI, cannot read what was recorded.
struct RailKeys {
  Cipher cipher = Cipher::none;
  bool encrypted = false;  // data; control messages always are
  struct Directions {
    Proof send{};
    Proof receive{};
  };
  Directions data;
  Directions control;
  AuthenticationKey settling{};  // the same on both sides, for Settled only
};
Settled settled_as(std::size_t rail, std::size_t rails, const RailKeys& keys);
bool proves(const Settled& settled, const RailKeys& keys);

enum class HandshakeSide : unsigned char { connecting = 1, listening = 2 };
// Nothing where the other side's public key is none.
std::optional<RailKeys> keys_of(HandshakeSide own, const TcpHello& hello, const TcpAnswer& answer,
                                const TcpSecret& secret, const ExchangeKeys& exchange);

// A connection whose ends know each other.
struct ConnectedRail {
  Descriptor socket;
  RailKeys keys;
};

}  // namespace rueda
