// SPDX-License-Identifier: Apache-2.0
// A point in the work that a device has been given.
#pragma once

namespace rueda {

// A queue of one device's work, as its library names it: a cudaStream_t.
using DeviceStream = void*;

// Purpose: a point in the work that a device has been given, behind which a tensor is ready, or a result is
// there. Never changes. Any thread may ask; it may outlive its job.
class Fence {
 public:
  virtual ~Fence() = default;
  // Returns true if the device has come to this point. Failed work counts as done, too.
  virtual bool passed() const = 0;
  // Makes later work of `stream`, of the same kind of device, wait for this point. The host does not wait.
  virtual void hold_back(DeviceStream stream) const = 0;
  // True for a point in a graph into which its stream was being captured. A captured point is reached in each
  // replay. passed() returns true, and the graph keeps its memory alive.
  virtual bool captured() const { return false; }
};

}  // namespace rueda
