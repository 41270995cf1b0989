// SPDX-License-Identifier: Apache-2.0
// Everything that crosses ranks is written and read here, within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace rueda {

using Bytes = std::vector<std::byte>;
using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Purpose: appends little-endian values to a growing buffer. Owned by whoever builds a message; a plain
// value.
class Writer {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) { append(&value, sizeof value); }
  void put_string(std::string_view text);
  // Below 2^63; seven bits a byte, so that small ones take one.
  void put_size(std::uint64_t size);
  void put_count(std::size_t count) { put_size(count); }

  Bytes take() {
    bytes_.resize(std::exchange(written_, 0));
    return std::exchange(bytes_, {});
  }

 private:
  void append(const void* data, std::size_t count) {
    if (count == 0) return;
    if (bytes_.size() - written_ < count) grow(count);
    std::memcpy(bytes_.data() + written_, data, count);
    written_ += count;
  }
  void grow(std::size_t count);

  Bytes bytes_;  // more than are written: values are many and small, and a vector's end moves slowly
  std::size_t written_ = 0;
};

// Purpose: reads what a Writer wrote from bytes that cannot be trusted. The first read past the end, or the
// first value out of range, makes the reader fail for good; from then on every read gives zero. Check `ok()`
// (or `complete()`) once, at the end. A plain value over borrowed bytes.
class Reader {
 public:
  explicit Reader(ConstBytes bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T> T get() {
    T value{};
    ConstBytes source = take(sizeof value);
    if (!source.empty()) std::memcpy(&value, source.data(), sizeof value);
    return value;
  }
  // One byte that `from` must accept (data_type_from and its like).
  template <class From>
  auto get_enum(From from) {
    auto value = from(get<std::uint8_t>());
    if (!value) fail();
    return value.value_or(typename decltype(value)::value_type{});
  }
  std::string get_string();
  std::int64_t get_size();
  // A count of items of at least `item_bytes` each: one that the rest of the bytes cannot hold is an error,
  // so that a flipped bit never makes us allocate gigabytes.
  std::size_t get_count(std::size_t item_bytes);

  // A list as it was written: its count, then each item by `read`, an item having at least `item_bytes`.
  // Grows as items are read, so what is made is never much larger than what came.
  template <class T, class Read>
  std::vector<T> get_list(std::size_t item_bytes, Read read) {
    std::vector<T> items;
    for (std::size_t left = get_count(item_bytes); left > 0 && ok_; --left) items.push_back(read(*this));
    return items;
  }

  void fail() { ok_ = false, bytes_ = {}; }
  bool ok() const { return ok_; }
  bool complete() const { return ok_ && bytes_.empty(); }  // all read, nothing left over

 private:
  ConstBytes take(std::size_t count);

  ConstBytes bytes_;
  bool ok_ = true;
};

}  // namespace rueda
