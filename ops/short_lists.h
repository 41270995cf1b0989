// SPDX-License-Identifier: Apache-2.0
// Lists that are short nearly always.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>

namespace rueda {

// Purpose: room inside an object for its lists of some entries for each rank of a host, so that making a Work
// is one allocation; longer ones go to the heap. Nothing is given back before the end: reserve. Part of an
// object that does not move, before the lists.
class ShortLists {
 public:
  std::pmr::memory_resource* memory() { return &lists_; }

 private:
  alignas(std::max_align_t) std::array<std::byte, 320> room_;
  std::pmr::monotonic_buffer_resource lists_{room_.data(), room_.size()};
};

}  // namespace rueda
