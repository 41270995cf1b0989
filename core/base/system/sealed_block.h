// SPDX-License-Identifier: Apache-2.0
// Words of shared memory that a reader gets whole or not at all.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace rueda {

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free, "words of shared memory need no lock");

inline std::uint64_t load_word(const std::uint64_t& word) {
  // C++20 has no atomic_ref to const; loading does not write.
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}
inline void store_word(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

// Purpose: what one thread writes and any thread or process may read at any time, also after the writer died
// in the middle of it. The writer counts `begun` up, stores words, then sets `finished` to the same number.
// A reader loads in the order of the addresses: when the first and the last word are equal, nothing was being
// written in between. That holds for a copy made in that order as well. A plain value: no pointers, all zero
// is "never written".
template <std::size_t kWords>
struct SealedBlock {
  std::uint64_t finished = 0;
  std::array<std::uint64_t, kWords> words{};
  std::uint64_t begun = 0;

  // Owner only. `change` is given a function that stores a word.
  template <class Change>
  void write(Change change) {
    const std::uint64_t next = load_word(begun) + 1;
    store_word(begun, next);
    change([this](std::size_t index, std::uint64_t value) { store_word(words[index], value); });
    store_word(finished, next);
  }

  // Nothing when it was never written, is just being written, or its writer died while writing.
  std::optional<std::array<std::uint64_t, kWords>> read() const {
    constexpr int kAttempts = 4;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::array<std::uint64_t, kWords> copy;
      const std::uint64_t first = load_word(finished);
      for (std::size_t i = 0; i < kWords; ++i) copy[i] = load_word(words[i]);
      if (first != 0 && first == load_word(begun)) return copy;
    }
    return std::nullopt;
  }
};

}  // namespace rueda
