// SPDX-License-Identifier: Apache-2.0
// Memory of devices that NCCL gives.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "ops/cuda/device.h"
#include "ops/nccl/nccl_library.h"

namespace rueda {

// Purpose: blocks that NCCL can work on without copies of its own; of a version that has no such function, or
// a device that it cannot, ordinary ones. Any thread may call it; guarded by its mutex. Shared by the Runtime
// and the NcclState; blocks may outlive it. As the devices' own, a block is freed when the device is through
// with all that it has been given: whoever drops the last pointer to one waits for that.
class NcclMemory {
 public:
  NcclMemory(std::shared_ptr<Devices> devices, std::function<const NcclLibrary&()> nccl)
      : devices_(std::move(devices)), nccl_(std::move(nccl)) {}

  // Throws std::bad_alloc, and InvalidArgument where there is no such device.
  std::shared_ptr<std::byte> allocate(int device, std::size_t bytes);
  // Whether a block that begins there is NCCL's.
  bool gave(const void* memory) const;

 private:
  struct Given {
    std::mutex mutex;
    std::set<const void*> blocks;  // guarded by mutex
  };
  std::shared_ptr<Devices> devices_;
  std::function<const NcclLibrary&()> nccl_;
  std::shared_ptr<Given> given_ = std::make_shared<Given>();
};

}  // namespace rueda
