// SPDX-License-Identifier: Apache-2.0
// The stream and the memory that a backend keeps for each device.
#pragma once

#include <map>
#include <memory>

#include "core/control/messages/plan.h"
#include "ops/cuda/block_pool.h"
#include "ops/cuda/device.h"

namespace rueda {

// Purpose: a stream of ours on one device and the memory for what goes through it. The background thread's.
struct DeviceSide {
  explicit DeviceSide(Device& device)
      : device(device),
        queue(device.make_queue()),
        memory([&device](std::size_t bytes) { return device.memory(bytes); }),
        pinned([&device](std::size_t bytes) { return device.pinned(bytes); }) {}

  Device& device;
  std::unique_ptr<DeviceQueue> queue;
  BlockPool memory;
  BlockPool pinned;

  // A stream that is captured takes nothing else meanwhile.
  DeviceQueue& queue_of(const GraphKey& graph) {
    std::unique_ptr<DeviceQueue>& made = of_graphs[graph];
    if (!made) made = device.make_queue();
    return *made;
  }
  std::map<GraphKey, std::unique_ptr<DeviceQueue>> of_graphs;
};

// Purpose: those of the devices that have been used, made at their first use. The background thread's.
class DeviceSides {
 public:
  explicit DeviceSides(std::shared_ptr<Devices> devices) : devices_(std::move(devices)) {}

  DeviceSide& at(int number) {
    const auto found = sides_.find(number);
    if (found != sides_.end()) return *found->second;
    devices_->at(number).make_current();  // else the thread would make a context on the first device, too
    return *sides_.emplace(number, std::make_unique<DeviceSide>(devices_->at(number))).first->second;
  }
  Devices& devices() { return *devices_; }
  const std::shared_ptr<Devices>& shared_devices() const { return devices_; }

 private:
  std::shared_ptr<Devices> devices_;
  std::map<int, std::unique_ptr<DeviceSide>> sides_;
};

}  // namespace rueda
