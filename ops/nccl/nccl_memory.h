// SPDX-License-Identifier: Apache-2.0
// Memory of devices that NCCL gives.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "ops/cuda/device.h"
#include "ops/nccl/nccl_library.h"

namespace rueda {

// Purpose: blocks that NCCL can work on without copies of its own; of a version that has no such function, or
// a device that it cannot, ordinary ones. Any thread may call it; guarded by its mutex. Shared by the Runtime
// and the NcclState; blocks may outlive it. NCCL frees at once, unlike CUDA, and the program may have given
// the device what still reads a block. So whoever drops the last pointer to one waits for nothing (it may be
// the background thread, or somebody who captures): the block is freed when the next one is allocated, or at
// the end, when the device is through with all that it has been given until then.
class NcclMemory {
 public:
  NcclMemory(std::shared_ptr<Devices> devices, std::function<const NcclLibrary&()> nccl)
      : devices_(std::move(devices)), nccl_(std::move(nccl)), given_(std::make_shared<Given>(devices_)) {}

  // Throws std::bad_alloc, and InvalidArgument where there is no such device.
  std::shared_ptr<std::byte> allocate(int device, std::size_t bytes);
  // Whether a block that begins there is NCCL's.
  bool gave(const void* memory) const;

 private:
  struct Given {
    std::shared_ptr<Devices> devices;
    std::mutex mutex;
    std::set<const void*> blocks;                               // guarded by mutex
    std::map<int, std::vector<std::shared_ptr<void>>> dropped;  // by device; guarded by mutex

    ~Given();
    void free_dropped(int device);
  };
  std::shared_ptr<Devices> devices_;
  std::function<const NcclLibrary&()> nccl_;
  std::shared_ptr<Given> given_;
};

}  // namespace rueda
