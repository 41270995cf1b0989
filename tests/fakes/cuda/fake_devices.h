// SPDX-License-Identifier: Apache-2.0
// Devices without a device: streams that move on when somebody asks about them, and memory that the host
// cannot touch.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "ops/cuda/device.h"

namespace rueda {

// Purpose: one rank's device. Each stream does what it was given in order; among streams, one step of any
// that need not wait each time a fence is asked. An address of its memory has a bit that no address of the
// host has: who looks there crashes. What streams are given may be captured into a graph, as CUDA does it.
// Any thread may call it; guarded by its mutex.
class FakeDevice final : public Device {
 public:
  explicit FakeDevice(unsigned seed, std::string name = "fake") : random_(seed), name_(std::move(name)) {}

  int number() const override { return 0; }
  std::unique_ptr<DeviceQueue> make_queue() override;
  void make_current() override {}
  void as_current(const std::function<void()>& call) override { call(); }
  std::shared_ptr<const Fence> record(DeviceStream stream) override;
  std::shared_ptr<std::byte> memory(std::size_t bytes) override;
  std::shared_ptr<std::byte> pinned(std::size_t bytes) override;
  void synchronize() override { finish(); }
  std::string identity() const override { return name_; }

  // From now on there is no memory for blocks of `least` bytes and more.
  void take_memory_from(std::size_t least) { least_missing_ = least; }
  // What the program gives the device: kernels, in the end.
  void give(DeviceStream stream, std::function<void()> run);
  // Until that point has been passed, what comes behind on the stream waits.
  struct Point {
    std::atomic<bool> passed{false};
    DeviceStream captured_on = nullptr;  // a point in a graph; null: none
    std::size_t behind = 0;              // so many things there
  };
  struct Task {
    std::function<void()> run;
    std::shared_ptr<Point> waits_for;
  };
  // Throws std::runtime_error where the stream is captured and the point is not, and after the capture where
  // it was.
  void wait(DeviceStream stream, std::shared_ptr<Point> point);
  // Tasks that are others each time: in a graph `make` is called whenever it runs.
  void give_made(DeviceStream stream, std::function<std::vector<Task>()> make);

  // What `stream` is given from now on, and streams that wait for it, is not done but kept. One at a time.
  void begin_capture(DeviceStream stream);
  // Throws std::runtime_error where `stream` does not wait for all that other streams were given.
  struct Graph {
    std::vector<std::function<std::vector<Task>()>> steps;
    std::vector<std::shared_ptr<void>> memory;
  };
  // Memory that a captured stream is through with stays the graph's; false where the stream is not captured.
  bool keep_in_graph(DeviceStream stream, std::shared_ptr<void> memory);
  Graph end_capture(DeviceStream stream);
  // Ends it and keeps nothing, as what is not allowed in a capture does.
  void drop_capture();
  void run(const Graph& graph, DeviceStream stream);
  // How often queues of ours were given tensors to copy: packed, unpacked or scaled.
  std::size_t batches() const { return batches_; }
  // Whose queue that is.
  static FakeDevice& of(DeviceStream queue);
  // One step; false where nothing is left to do.
  bool move();
  void finish() {
    while (move()) {}
  }

  // Where the bytes really are.
  template <class T>
  static T* real(T* address) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(address) & ~kDeviceBit);
  }

 private:
  friend class FakeQueue;
  friend class FakeFence;
  static constexpr std::uintptr_t kDeviceBit = std::uintptr_t{1} << 62;

  bool captures(DeviceStream stream) const { return captured_.contains(stream); }
  bool move_locked();

  std::mutex mutex_;
  std::mt19937 random_;
  std::string name_;
  std::size_t least_missing_ = SIZE_MAX;
  std::atomic<std::size_t> batches_{0};
  std::map<DeviceStream, std::deque<Task>> streams_;
  // While a graph is captured: what it holds, how much of each stream, and how much of it the first waits
  // for.
  struct Share {
    std::size_t given = 0;
    std::size_t joined = 0;
  };
  Graph graph_;
  DeviceStream first_ = nullptr;
  std::map<DeviceStream, Share> captured_;
};

// Purpose: one fake device, number 0.
class FakeDevices final : public Devices {
 public:
  explicit FakeDevices(unsigned seed, std::string name = "fake") : device_(seed, std::move(name)) {}
  std::string problem() override { return {}; }
  std::shared_ptr<const Fence> record(int, DeviceStream stream) override { return device_.record(stream); }
  Device& at(int) override { return device_; }
  FakeDevice& device() { return device_; }

 private:
  FakeDevice device_;
};

}  // namespace rueda
