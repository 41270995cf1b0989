// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/collectives/fingerprint.h"

#include <array>
#include <bit>
#include <cstring>

namespace rueda {
namespace {

// The mixing of XXH64: of its lane and of its word each a bijection, so no single difference is lost.
constexpr std::uint64_t kFirstFactor = 0x9e3779b185ebca87, kSecondFactor = 0xc2b2ae3d27d4eb4f;

std::uint64_t mix(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kSecondFactor, 31) * kFirstFactor;
}

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

std::uint64_t fingerprint(std::span<const std::byte> bytes) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::uint64_t hash = bytes.size();
  std::array<std::uint64_t, 4> lanes{1, 2, 3, 4};  // that do not wait for one another
  for (; bytes.size() >= lanes.size() * kWord; bytes = bytes.subspan(lanes.size() * kWord)) {
    for (std::size_t i = 0; i < lanes.size(); ++i)
      lanes[i] = mix(lanes[i], word_at(bytes.data() + i * kWord));
  }
  for (std::uint64_t lane : lanes) hash = mix(hash, lane);
  for (; bytes.size() >= kWord; bytes = bytes.subspan(kWord)) hash = mix(hash, word_at(bytes.data()));
  for (std::byte byte : bytes) hash = mix(hash, std::to_integer<std::uint64_t>(byte));
  hash = (hash ^ (hash >> 33)) * kSecondFactor;
  return hash ^ (hash >> 32);
}

}  // namespace rueda
