// SPDX-License-Identifier: Apache-2.0
// Memory that a device works on after the Work that took it is over.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "rueda/fence.h"

namespace rueda {

// Purpose: keeps blocks for the next Work: making one, pinned or on a device, stops the device. A block is
// free again when the device has passed the fence with which it came back. Owned by a backend, used by the
// background thread.
class BlockPool {
 public:
  struct Block {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
    std::byte* data() const { return memory.get(); }
  };
  // Makes so many bytes, or throws std::bad_alloc.
  using Make = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

  explicit BlockPool(Make make) : make_(std::move(make)) {}

  // At least `bytes`, not initialised. Throws WorkFailure naming `what` it was for.
  Block take(std::string_view what, std::size_t bytes);
  void give_back(Block block, std::shared_ptr<const Fence> behind);

 private:
  struct Used {
    Block block;
    std::shared_ptr<const Fence> behind;  // null: free
  };
  Make make_;
  std::vector<Used> blocks_;
};

}  // namespace rueda
