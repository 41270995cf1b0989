// SPDX-License-Identifier: Apache-2.0
// Devices as the backends see them. No header of CUDA's: tests have devices of their own.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/engine/memory/accelerator.h"
#include "ops/cuda/batch_copy.h"

namespace rueda {

// Purpose: one of our own streams on a device: what it is given, the device does in that order, sometime.
// Owned by a backend, used by the background thread alone. Everything throws BackendError.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  // Between the device's and pinned memory, either way.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(const BatchCopy& copies) = 0;  // on the device
  virtual std::shared_ptr<const Fence> record() = 0;
  virtual DeviceStream stream() const = 0;
};

// Purpose: one device. Lives as long as its Devices; any thread may call it.
class Device {
 public:
  virtual ~Device() = default;
  virtual int number() const = 0;  // in this process
  virtual std::unique_ptr<DeviceQueue> make_queue() = 0;
  // For libraries that go by the current device of the calling thread: from now on, or during `call`.
  virtual void make_current() = 0;
  virtual void as_current(const std::function<void()>& call) = 0;
  // As Accelerator's.
  virtual std::shared_ptr<const Fence> record(DeviceStream stream) = 0;
  // Not initialised; freed with the last pointer. Throws std::bad_alloc.
  virtual std::shared_ptr<std::byte> memory(std::size_t bytes) = 0;
  virtual std::shared_ptr<std::byte> pinned(std::size_t bytes) = 0;  // the host's
  // Waits until the device is through with all that it has been given, on whichever streams, the program's
  // too. Never throws: what cannot be waited for (the process ends, say) is over.
  virtual void synchronize() = 0;
  // The same for no other device of any host.
  virtual std::string identity() const = 0;
};

// Purpose: all devices of this process, by number. Shared by the Runtime and its backends.
class Devices : public Accelerator {
 public:
  DeviceKind kind() const override { return DeviceKind::cuda; }
  virtual Device& at(int number) = 0;
};

}  // namespace rueda
