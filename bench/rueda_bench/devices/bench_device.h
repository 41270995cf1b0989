// SPDX-License-Identifier: Apache-2.0
// The device that a rank measures on.
#pragma once

#include <map>
#include <memory>

#include "core/engine/runtime.h"
#include "ops/cuda/device.h"

namespace rueda::bench {

// Purpose: how long a device takes, by its own clock. The main thread's.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  virtual void start(DeviceStream stream) = 0;
  // Seconds from there to the end of what `stream` has been given since, which it waits for.
  virtual double stop(DeviceStream stream) = 0;
};

// Purpose: the device of this rank, the stream of a program on it, and tensors with a twin in pinned memory:
// the host writes and reads those. The main thread's.
class BenchDevice {
 public:
  BenchDevice(std::shared_ptr<Devices> devices, int number, std::unique_ptr<DeviceClock> clock)
      : devices_(std::move(devices)),
        number_(number),
        clock_(std::move(clock)),
        queue_(devices_->at(number).make_queue()) {}

  Device& device() { return devices_->at(number_); }
  int number() const { return number_; }
  DeviceClock& clock() { return *clock_; }
  DeviceQueue& queue() { return *queue_; }
  DeviceStream stream() const { return queue_->stream(); }
  // Until the device has done all that the stream was given.
  void finish();

  // Pinned memory, with a twin on the device for as long as it lives.
  std::shared_ptr<std::byte> pinned(std::size_t bytes);
  // Of pinned memory that pinned() gave.
  std::byte* twin(const void* pinned) const { return twins_.at(pinned); }
  void to_device(const void* pinned, std::size_t bytes) { queue_->copy(twin(pinned), pinned, bytes); }
  void to_host(void* pinned, std::size_t bytes) { queue_->copy(pinned, twin(pinned), bytes); }

 private:
  std::shared_ptr<Devices> devices_;
  int number_;
  std::unique_ptr<DeviceClock> clock_;
  std::unique_ptr<DeviceQueue> queue_;
  std::map<const void*, std::byte*> twins_;
};

// Throws std::runtime_error in a line where CUDA finds no device.
void check_cuda();
// The CUDA device of this rank: its local rank modulo the number of devices.
std::unique_ptr<BenchDevice> cuda_bench_device(Rank local_rank);

}  // namespace rueda::bench
