// SPDX-License-Identifier: Apache-2.0
// Graphs of devices of the tests' own.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "rueda/rueda.h"
#include "tests/fakes/cuda/fake_devices.h"
#include "tests/support/training/device_ones.h"

namespace rueda {

// Of a program's stream.
inline void join(const Handle& handle, DeviceStream stream) {
  handle.wait();
  handle.fence()->hold_back(stream);
}

// What `given` has the device do, on the stream of `ones`.
inline FakeDevice::Graph graph_of(Runtime& runtime, FakeDevice& device, DeviceStream stream,
                                  const std::function<void()>& given) {
  FakeDevice::Graph graph;
  capture(
      [&] {
        device.begin_capture(stream);
        given();
        graph = device.end_capture(stream);
      },
      0, runtime);
  return graph;
}

inline void run_graph(FakeDevice& device, const FakeDevice::Graph& graph, DeviceStream stream) {
  device.run(graph, stream);
  const std::shared_ptr<const Fence> end = device.record(stream);
  while (!end->passed()) std::this_thread::yield();
}

inline std::vector<float> values_of(const DeviceOnes& ones) {
  return {ones.values(), ones.values() + ones.elements};
}

inline std::string words_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace rueda
