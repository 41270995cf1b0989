// SPDX-License-Identifier: Apache-2.0
// The memory for tensors of this rank: shared with other ranks, ordinary, or on a device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/engine/memory/accelerator.h"
#include "core/engine/memory/symmetric_memory.h"

namespace rueda {

// Purpose: gives memory for tensors, of the host or of a device, and knows whether devices can be reached.
// Owned by the Runtime; any thread may call it.
class TensorMemory {
 public:
  using OnDevice = std::function<std::shared_ptr<std::byte>(int device, std::size_t bytes)>;
  // Devices without an `accelerator`: `no_accelerator` says what there is instead.
  TensorMemory(Rank rank, std::shared_ptr<SymmetricMemory> shared, std::shared_ptr<Accelerator> accelerator,
               std::string no_accelerator, OnDevice on_device);

  // See Runtime.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);
  std::shared_ptr<std::byte> allocate_on_device(int device, std::size_t bytes);
  const std::shared_ptr<SymmetricMemory>& shared() const { return shared_; }
  std::string device_problem() const;
  // Marks the end of all work that `stream` has been given so far. Only if device_problem() is empty.
  std::shared_ptr<const Fence> record(int device, DeviceStream stream) const {
    return accelerator_->record(device, stream);
  }

 private:
  Rank rank_;
  std::shared_ptr<SymmetricMemory> shared_;
  std::shared_ptr<Accelerator> accelerator_;
  std::string no_accelerator_;
  OnDevice on_device_;
};

}  // namespace rueda
