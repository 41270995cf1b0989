// SPDX-License-Identifier: Apache-2.0
// Where a device stands in what it has been given to do.
#pragma once

namespace rueda {

// A queue of one device's work, as its library names it: a cudaStream_t.
using DeviceStream = void*;

// Purpose: a point in the work that a device has been given, behind which a tensor is ready, or a result is
// there. Never changes. Any thread may ask; it may outlive its job.
class Fence {
 public:
  virtual ~Fence() = default;
  // Whether the device has come to it. What has failed there has been passed, too.
  virtual bool passed() const = 0;
  // What `stream`, of the same kind of device, is given from now on waits for it. The host does not.
  virtual void hold_back(DeviceStream stream) const = 0;
  // Whether it is a point in a graph that its stream was being captured into. The device comes there whenever
  // the graph runs: so it has been passed as far as anybody can ask, and the graph keeps what it works on.
  virtual bool captured() const { return false; }
};

}  // namespace rueda
