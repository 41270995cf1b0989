// SPDX-License-Identifier: Apache-2.0
// Lists that are short nearly always.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace rueda {

// Purpose: room inside an object for its lists of some entries for each rank of a host, so that making a Work
// is one allocation; longer ones go to the heap. Nothing is given back before the end. Part of an object that
// does not move, before the lists. No std::pmr: its calls cannot be inlined, and are a third of what it takes
// to make a Work.
class InlineVectors {
 public:
  InlineVectors() = default;
  InlineVectors(const InlineVectors&) = delete;
  InlineVectors& operator=(const InlineVectors&) = delete;

  std::byte* take(std::size_t bytes) {
    const std::size_t room = (bytes + kStep - 1) / kStep * kStep;
    if (room <= room_.size() - used_) return room_.data() + std::exchange(used_, used_ + room);
    return take_longer(bytes);
  }

 private:
  [[gnu::noinline]] std::byte* take_longer(std::size_t bytes) {
    return longer_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
  }

  static constexpr std::size_t kStep = alignof(std::max_align_t);

  std::size_t used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> longer_;
  alignas(kStep) std::array<std::byte, 320> room_;  // uninitialised
};

// Purpose: a list of so many elements at most as is said when it gets its room. Part of the same object.
template <class T>
class InlineVector {
  static_assert(alignof(T) <= alignof(std::max_align_t));

 public:
  InlineVector() = default;
  InlineVector(InlineVectors& room, std::size_t most) { get_room(room, most); }
  ~InlineVector() { clear(); }
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;

  // Does nothing where it has some.
  void get_room(InlineVectors& room, std::size_t most) {
    if (elements_ != nullptr) return;
    elements_ = reinterpret_cast<T*>(room.take(most * sizeof(T)));
    most_ = most;
  }

  template <class... Arguments>
  void emplace_back(Arguments&&... arguments) {
    RUEDA_ASSERT(size_ < most_);
    std::construct_at(elements_ + size_, std::forward<Arguments>(arguments)...);
    ++size_;
  }
  void clear() { std::destroy_n(elements_, std::exchange(size_, 0)); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<T> all() { return {elements_, size_}; }
  std::span<const T> all() const { return {elements_, size_}; }
  T& operator[](std::size_t i) { return elements_[i]; }
  const T& operator[](std::size_t i) const { return elements_[i]; }

 private:
  T* elements_ = nullptr;
  std::size_t most_ = 0;
  std::size_t size_ = 0;
};

}  // namespace rueda
