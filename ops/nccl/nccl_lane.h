// SPDX-License-Identifier: Apache-2.0
// A communicator of NCCL with a stream of its own.
#pragma once

#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/cuda/device_sides.h"
#include "ops/nccl/nccl_library.h"
#include "rueda/device_window.h"

namespace rueda {

// Purpose: operations of a process set that follow one another on the device, and the buffer in which they
// fuse tensors. No call of it waits: what NCCL has to do takes place on threads of its own, and `ready` tells
// when it is through. Owned by NcclLanes or NcclGraphs, used by the background thread. Its end waits for the
// device for 2 s at most; what is not through then is aborted. NCCL ends and aborts a communicator only when
// the last graph that holds a call of its is destroyed, and the program may keep those: a graph's lane is
// aborted on a thread of its own, and left to the process where graphs outlive the job.
class NcclLane {
 public:
  enum class Use { plans, graph };
  NcclLane(const NcclFunctions& nccl, Device& device, std::size_t buffer_bytes, Use use = Use::plans);
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;
  ~NcclLane();

  // Begins to connect with the other members.
  void connect(const ncclUniqueId& id, int size, int index);
  // Whether NCCL is through with what it was last asked. Throws BackendError if it has failed.
  bool ready();
  // Begins to tell NCCL of memory in which all members work at the same offsets. It stays until after this.
  void begin_window(const DeviceWindow& window);
  // Begins to have NCCL forget it; the lane is idle.
  void end_window(const DeviceWindow& window);
  // Ends the work on the device, here and soon on the other ranks. Never throws.
  void abort();
  // Of a graph's: the same, in its own time.
  void abort_aside();
  // Of a graph's: a capture has spoilt it. Nothing more is asked of it.
  void give_up() { given_up_ = true; }
  bool given_up() const { return given_up_; }

  ncclComm_t comm() const { return comm_; }
  DeviceQueue& queue() { return *queue_; }
  std::byte* buffer() const { return buffer_.get(); }
  std::size_t buffer_bytes() const { return buffer_bytes_; }
  // All that the stream has been given; kept as the last, unless it went into a graph.
  std::shared_ptr<const Fence> record();
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
  const Use use_;
  bool given_up_ = false;
  std::future<void> aborted_;  // of a graph's, when it is
  std::shared_ptr<const Fence> last_;
  // By their memory; NCCL fills them in when it is through.
  std::vector<std::pair<const std::byte*, std::unique_ptr<NcclFunctions::Window>>> windows_;
};

}  // namespace rueda
