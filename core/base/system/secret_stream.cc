// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/secret_stream.h"

#include <sodium.h>

#include <cstring>

namespace rueda {
namespace {

constexpr std::size_t kStreamHeader = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t kSealBytes = crypto_secretstream_xchacha20poly1305_ABYTES;
static_assert(crypto_secretstream_xchacha20poly1305_KEYBYTES == sizeof(Proof));

const unsigned char* octets(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* octets(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

struct MessageSealer::State {
  crypto_secretstream_xchacha20poly1305_state stream;
  std::array<std::byte, kStreamHeader> header;
  bool begun = false;
};

MessageSealer::MessageSealer(const Proof& key) : state_(std::make_unique<State>()) {
  start_libsodium();
  crypto_secretstream_xchacha20poly1305_init_push(&state_->stream, octets(state_->header.data()),
                                                  octets(key.data()));
}
MessageSealer::~MessageSealer() = default;
MessageSealer::MessageSealer(MessageSealer&&) noexcept = default;
MessageSealer& MessageSealer::operator=(MessageSealer&&) noexcept = default;

Bytes MessageSealer::seal(ConstBytes message) {
  const std::size_t header = state_->begun ? 0 : kStreamHeader;
  Bytes sealed(header + message.size() + kSealBytes);
  if (header != 0) std::memcpy(sealed.data(), state_->header.data(), kStreamHeader);
  state_->begun = true;
  crypto_secretstream_xchacha20poly1305_push(&state_->stream, octets(sealed.data() + header), nullptr,
                                             octets(message.data()), message.size(), nullptr, 0, 0);
  return sealed;
}

struct MessageOpener::State {
  crypto_secretstream_xchacha20poly1305_state stream;
  Proof key;
  bool begun = false;
  bool broken = false;
};

MessageOpener::MessageOpener(const Proof& key) : state_(std::make_unique<State>()) {
  start_libsodium();
  state_->key = key;
}
MessageOpener::~MessageOpener() = default;
MessageOpener::MessageOpener(MessageOpener&&) noexcept = default;
MessageOpener& MessageOpener::operator=(MessageOpener&&) noexcept = default;

std::optional<Bytes> MessageOpener::open(ConstBytes sealed) {
  State& state = *state_;
  if (!state.begun && sealed.size() >= kStreamHeader) {
    crypto_secretstream_xchacha20poly1305_init_pull(&state.stream, octets(sealed.data()),
                                                    octets(state.key.data()));
    state.begun = true;
    sealed = sealed.subspan(kStreamHeader);
  }
  state.broken |= !state.begun || sealed.size() < kSealBytes;
  if (state.broken) return std::nullopt;
  Bytes message(sealed.size() - kSealBytes);
  unsigned char tag = 0;
  state.broken =
      crypto_secretstream_xchacha20poly1305_pull(&state.stream, octets(message.data()), nullptr, &tag,
                                                 octets(sealed.data()), sealed.size(), nullptr, 0) != 0;
  if (state.broken) return std::nullopt;
  return message;
}

}  // namespace rueda
