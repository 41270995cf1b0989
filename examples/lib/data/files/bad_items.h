// SPDX-License-Identifier: Apache-2.0
// The treatment of items of a data file that cannot be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace rueda::examples {

enum class OnBadItems : std::uint8_t { refuse, skip };  // --bad-items

// Purpose: counts the bad items of one file, and keeps the texts on the first ten. A plain value.
class BadItems {
 public:
  // The text names file, item and fault.
  void add(std::string what);
  // Runs `read`, and counts the item as bad where it throws std::runtime_error.
  template <class Read>
  void attempt(const Read& read) {
    try {
      read();
    } catch (const std::runtime_error& error) {
      add(error.what());
    }
  }

  std::size_t count() const { return count_; }
  // For people, if bad items were left out: their number, and the first of them. No line if there are none.
  std::vector<std::string> words(const std::string& file) const;
  // If there are bad items, throws std::runtime_error with all that is known and the remedy.
  void refuse_any(const std::string& file) const;
  // The same where no good item is left, so that leaving out the bad ones is no remedy.
  void refuse_all(const std::string& file) const;

  // As words of a record, for a cache, and back.
  std::vector<std::int32_t> to_record() const;
  static BadItems from_record(std::span<const std::int32_t> record);

 private:
  std::size_t count_ = 0;
  std::vector<std::string> first_;
};

}  // namespace rueda::examples
