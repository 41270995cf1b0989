// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda/fake_devices.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "ops/cuda/batch_copy_body.h"

namespace rueda {

// Purpose: a point of a fake stream.
class FakeFence final : public Fence {
 public:
  FakeFence(FakeDevice& device, std::shared_ptr<FakeDevice::Point> point)
      : device_(device), point_(std::move(point)) {}
  bool passed() const override {
    if (captured()) return true;
    std::lock_guard lock(device_.mutex_);
    if (!point_->passed) device_.move_locked();
    return point_->passed;
  }
  void hold_back(DeviceStream stream) const override { device_.wait(stream, point_); }
  bool captured() const override { return point_->captured_on != nullptr; }

 private:
  FakeDevice& device_;
  std::shared_ptr<FakeDevice::Point> point_;
};

// Purpose: a stream of Rueda's own on a fake device.
class FakeQueue final : public DeviceQueue {
 public:
  explicit FakeQueue(FakeDevice& device) : device_(device) {}
  FakeDevice& device() const { return device_; }

  void copy(void* to, const void* from, std::size_t bytes) override {
    device_.give(stream(), [=] { std::memcpy(FakeDevice::real(to), FakeDevice::real(from), bytes); });
  }
  void copy(const BatchCopy& copies) override {
    ++device_.batches_;
    device_.give(stream(), [copies] {
      choose_copy(copies, [&]<class Body>(std::int64_t scale) {
        for (CopyPiece piece : copies.pieces) {
          piece = {FakeDevice::real(piece.from), FakeDevice::real(piece.to), piece.elements * scale};
          constexpr std::int64_t kThreads = 3;
          for (std::int64_t thread = 0; thread < kThreads; ++thread)
            Body::run(piece, copies.factor, thread, kThreads);
        }
      });
    });
  }
  std::shared_ptr<const Fence> record() override { return device_.record(stream()); }
  DeviceStream stream() const override { return const_cast<FakeQueue*>(this); }

 private:
  FakeDevice& device_;
};

FakeDevice& FakeDevice::of(DeviceStream queue) { return static_cast<FakeQueue*>(queue)->device(); }

std::unique_ptr<DeviceQueue> FakeDevice::make_queue() { return std::make_unique<FakeQueue>(*this); }

std::shared_ptr<const Fence> FakeDevice::record(DeviceStream stream) {
  auto point = std::make_shared<Point>();
  {
    const std::lock_guard lock(mutex_);
    if (captures(stream)) {
      point->captured_on = stream;
      point->behind = captured_[stream].given;
      return std::make_shared<FakeFence>(*this, std::move(point));
    }
  }
  give(stream, [point] { point->passed = true; });
  return std::make_shared<FakeFence>(*this, std::move(point));
}

std::shared_ptr<std::byte> FakeDevice::memory(std::size_t bytes) {
  const std::shared_ptr<std::byte> block = pinned(bytes);
  auto* address = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(block.get()) | kDeviceBit);
  return {block, address};
}

std::shared_ptr<std::byte> FakeDevice::pinned(std::size_t bytes) {
  if (bytes >= least_missing_) throw std::bad_alloc();
  auto* block = static_cast<std::byte*>(::operator new (bytes + 1, std::align_val_t{64}));
  std::memset(block, 0x5a, bytes);  // nobody may count on what was there
  return {block, [](std::byte* data) { ::operator delete (data, std::align_val_t{64}); }};
}

void FakeDevice::give(DeviceStream stream, std::function<void()> run) {
  give_made(stream, [run = std::move(run)] { return std::vector<Task>{{run, nullptr}}; });
}

void FakeDevice::give_made(DeviceStream stream, std::function<std::vector<Task>()> make) {
  {
    const std::lock_guard lock(mutex_);
    if (captures(stream)) {
      graph_.steps.push_back(std::move(make));
      ++captured_[stream].given;
      return;
    }
  }
  std::vector<Task> tasks = make();  // which may call us
  const std::lock_guard lock(mutex_);
  for (Task& task : tasks) streams_[stream].push_back(std::move(task));
}

void FakeDevice::wait(DeviceStream stream, std::shared_ptr<Point> point) {
  const std::lock_guard lock(mutex_);
  if (point->captured_on == nullptr) {
    if (captures(stream)) throw std::runtime_error("FakeDevice: a graph cannot wait for what is none of it");
    streams_[stream].push_back({{}, std::move(point)});
    return;
  }
  if (!captures(point->captured_on))
    throw std::runtime_error("FakeDevice: a point in a graph means nothing outside of it");
  captured_[stream];  // is a part of it from now on
  Share& share = captured_[point->captured_on];
  if (stream == first_) share.joined = std::max(share.joined, point->behind);
}

bool FakeDevice::keep_in_graph(DeviceStream stream, std::shared_ptr<void> memory) {
  const std::lock_guard lock(mutex_);
  if (!captures(stream)) return false;
  graph_.memory.push_back(std::move(memory));
  return true;
}

void FakeDevice::begin_capture(DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  graph_ = {};
  first_ = stream;
  captured_ = {{stream, {}}};
}

FakeDevice::Graph FakeDevice::end_capture(DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  const auto captured = std::exchange(captured_, {});
  for (const auto& [each, share] : captured) {
    if (each != stream && share.joined < share.given)
      throw std::runtime_error("FakeDevice: a stream in a graph was not joined to the first");
  }
  return std::exchange(graph_, {});
}

void FakeDevice::drop_capture() {
  const std::lock_guard lock(mutex_);
  captured_.clear();
  graph_ = {};
}

// One thing after another, as they were given.
void FakeDevice::run(const Graph& graph, DeviceStream stream) {
  for (const auto& make : graph.steps) give_made(stream, make);
}

bool FakeDevice::move() {
  std::lock_guard lock(mutex_);
  return move_locked();
}

bool FakeDevice::move_locked() {
  std::vector<std::deque<Task>*> ready;
  for (auto& [stream, tasks] : streams_) {
    if (!tasks.empty() && (!tasks.front().waits_for || tasks.front().waits_for->passed))
      ready.push_back(&tasks);
  }
  if (ready.empty()) return false;
  std::deque<Task>& tasks = *ready[random_() % ready.size()];
  const Task task = std::move(tasks.front());
  tasks.pop_front();
  if (task.run) task.run();
  return true;
}

}  // namespace rueda
