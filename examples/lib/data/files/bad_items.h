// SPDX-License-Identifier: Apache-2.0
// What becomes of items of a data file that cannot be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace rueda::examples {

enum class OnBadItems : std::uint8_t { refuse, skip };  // --bad-items

// Purpose: counts the bad items of one file, and keeps what is said of the first ten. A plain value.
class BadItems {
 public:
  // `what` names file, item and fault.
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
  // For people, where bad items were left out: how many, and the first of them. No line where there are none.
  std::vector<std::string> words(const std::string& file) const;
  // Throws std::runtime_error with all that is known, and the remedy, where there are bad items.
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
