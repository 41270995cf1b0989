// SPDX-License-Identifier: Apache-2.0
#include "core/base/system/record_cipher.h"

#include <sodium.h>

#include <array>
#include <cstring>

namespace rueda {
namespace {

static_assert(crypto_aead_aes256gcm_KEYBYTES == sizeof(Proof));
static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == sizeof(Proof));
static_assert(crypto_aead_aes256gcm_ABYTES == RecordCipher::kTagBytes);
static_assert(crypto_aead_chacha20poly1305_ietf_ABYTES == RecordCipher::kTagBytes);

using RecordNonce = std::array<unsigned char, crypto_aead_aes256gcm_NPUBBYTES>;
static_assert(sizeof(RecordNonce) == crypto_aead_chacha20poly1305_ietf_NPUBBYTES);

RecordNonce nonce_of(std::uint64_t sequence) {
  RecordNonce nonce{};
  std::memcpy(nonce.data(), &sequence, sizeof sequence);
  return nonce;
}

const unsigned char* octets(ConstBytes bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

}  // namespace

Cipher best_cipher() {
  start_libsodium();
  return crypto_aead_aes256gcm_is_available() != 0 ? Cipher::aes256_gcm : Cipher::chacha20_poly1305;
}

std::string_view to_string(Cipher cipher) {
  switch (cipher) {
    case Cipher::none: return "none";
    case Cipher::aes256_gcm: return "AES-256-GCM";
    case Cipher::chacha20_poly1305: return "ChaCha20-Poly1305";
  }
  return "none";
}

struct RecordCipher::State {
  crypto_aead_aes256gcm_state aes;  // made once: it takes longer than a short record
  Proof key;
  Cipher cipher;
  std::uint64_t sequence = 0;
};

RecordCipher::RecordCipher(Cipher cipher, const Proof& key) : state_(std::make_unique<State>()) {
  state_->key = key;
  state_->cipher = cipher;
  if (cipher == Cipher::aes256_gcm) crypto_aead_aes256gcm_beforenm(&state_->aes, octets(state_->key));
}
RecordCipher::~RecordCipher() = default;
RecordCipher::RecordCipher(RecordCipher&&) noexcept = default;
RecordCipher& RecordCipher::operator=(RecordCipher&&) noexcept = default;

void RecordCipher::seal(ConstBytes header, MutableBytes record) {
  const RecordNonce nonce = nonce_of(state_->sequence++);
  const std::size_t length = record.size() - kTagBytes;
  auto* text = reinterpret_cast<unsigned char*>(record.data());
  if (state_->cipher == Cipher::aes256_gcm) {
    crypto_aead_aes256gcm_encrypt_detached_afternm(text, text + length, nullptr, text, length, octets(header),
                                                   header.size(), nullptr, nonce.data(), &state_->aes);
  } else {
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(text, text + length, nullptr, text, length,
                                                       octets(header), header.size(), nullptr, nonce.data(),
                                                       octets(state_->key));
  }
}

bool RecordCipher::open(ConstBytes header, MutableBytes record) {
  if (record.size() < kTagBytes) return false;
  const RecordNonce nonce = nonce_of(state_->sequence++);
  const std::size_t length = record.size() - kTagBytes;
  auto* text = reinterpret_cast<unsigned char*>(record.data());
  if (state_->cipher == Cipher::aes256_gcm)
    return crypto_aead_aes256gcm_decrypt_detached_afternm(text, nullptr, text, length, text + length,
                                                          octets(header), header.size(), nonce.data(),
                                                          &state_->aes) == 0;
  return crypto_aead_chacha20poly1305_ietf_decrypt_detached(text, nullptr, text, length, text + length,
                                                            octets(header), header.size(), nonce.data(),
                                                            octets(state_->key)) == 0;
}

}  // namespace rueda
