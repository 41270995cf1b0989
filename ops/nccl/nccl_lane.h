// SPDX-License-Identifier: Apache-2.0
// A communicator of NCCL with a stream of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/device_window.h"
#include "ops/cuda/device_sides.h"
#include "ops/nccl/nccl_library.h"

namespace rueda {

// Purpose: operations of a process set that follow one another on the device, and the buffer in which they
// fuse tensors. No call of it waits: what NCCL has to do takes place on threads of its own, and `ready` tells
// when it is through. Owned by an NcclGroup, used by the coordinator thread. Its end waits for the device for
// 2 s at most; what is not through then is aborted.
class NcclLane {
 public:
  NcclLane(const NcclFunctions& nccl, Device& device, std::size_t buffer_bytes);
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;
  ~NcclLane();

  // Begins to connect with the other members.
  void connect(const ncclUniqueId& id, int size, int place);
  // Whether NCCL is through with what it was last asked. Throws BackendError if it has failed.
  bool ready();
  // Begins to tell NCCL of memory in which all members work at the same offsets. It stays until after this.
  void begin_window(const DeviceWindow& window);
  // What runs on the device ends, here and soon with the others. Never throws.
  void abort();

  ncclComm_t comm() const { return comm_; }
  DeviceQueue& queue() { return *queue_; }
  std::byte* buffer() const { return buffer_.get(); }
  std::size_t buffer_bytes() const { return buffer_bytes_; }
  // All that the stream has been given; kept as the last.
  std::shared_ptr<const Fence> record() { return last_ = queue_->record(); }
  bool idle() const { return !last_ || last_->passed(); }

 private:
  void end();

  const NcclFunctions& nccl_;
  Device& device_;
  std::unique_ptr<DeviceQueue> queue_;
  std::shared_ptr<std::byte> buffer_;  // null: no memory for one
  std::size_t buffer_bytes_ = 0;
  ncclComm_t comm_ = nullptr;
  bool connected_ = false;
  std::shared_ptr<const Fence> last_;
  std::vector<std::unique_ptr<NcclFunctions::Window>> windows_;  // NCCL fills them in when it is through
};

}  // namespace rueda
