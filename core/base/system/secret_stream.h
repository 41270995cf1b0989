// SPDX-License-Identifier: Apache-2.0
// One direction of a connection, encrypted: nobody else can read, change, drop or repeat its messages.
#pragma once

#include <memory>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/system/authentication.h"

namespace rueda {

// Purpose: seals messages in their order (XChaCha20-Poly1305, libsodium's secretstream). The first sealed
// message begins with a random header. Each is 17 bytes longer than the plain one. Owned by one thread.
class MessageSealer {
 public:
  // Both sides of one direction have the same key; no other direction or connection has it.
  explicit MessageSealer(const Proof& key);
  ~MessageSealer();
  MessageSealer(MessageSealer&&) noexcept;
  MessageSealer& operator=(MessageSealer&&) noexcept;

  Bytes seal(ConstBytes message);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Purpose: the other side of that direction. Owned by one thread.
class MessageOpener {
 public:
  explicit MessageOpener(const Proof& key);
  ~MessageOpener();
  MessageOpener(MessageOpener&&) noexcept;
  MessageOpener& operator=(MessageOpener&&) noexcept;

  // Nothing, from then on, if `sealed` is not the next message of the other side.
  std::optional<Bytes> open(ConstBytes sealed);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda
