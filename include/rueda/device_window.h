// SPDX-License-Identifier: Apache-2.0
// Memory on a device in which tensors have slots that all ranks know.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace rueda {

// Purpose: a block of one device and the slots of tensors in it, by name. A plain value; on the ranks that
// share it slots are the same. Nothing but the tensor of that name may lie in a slot as long as anybody
// holds the memory.
struct DeviceWindow {
  // The part of the block that belongs to one tensor.
  struct Slot {
    std::string name;        // of the allreduces that reduce the tensor
    std::size_t offset = 0;  // bytes, a multiple of 64
    std::size_t bytes = 0;   // of the tensor
    // Whether name, offset and bytes are the same.
    friend bool operator==(const Slot&, const Slot&) = default;
  };
  std::shared_ptr<std::byte> memory;  // of allocate_on_device(); null: none here, so nobody shares it
  std::size_t bytes = 0;              // as asked for there
  std::vector<Slot> slots;            // apart from each other, and ascending
};

}  // namespace rueda
