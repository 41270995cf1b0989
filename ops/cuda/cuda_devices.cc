// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_devices.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "ops/cuda/cuda_check.h"
#include "ops/cuda/cuda_report.h"
#include "ops/cuda/launch_batch_copy.h"

namespace rueda {
namespace {

cudaStream_t stream_of(DeviceStream stream) { return static_cast<cudaStream_t>(stream); }

// Purpose: what this thread calls meanwhile (memory, whether an event has been passed) has nothing to do with
// a graph that some thread is capturing: CUDA would refuse it otherwise, and spoil the graph.
class BesideCaptures {
 public:
  BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // the thread's own, once exchanged
};

// Purpose: makes a device the current one of this thread for a while, beside captures.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != device) check(cudaSetDevice(device), "cudaSetDevice");
    moved_ = before_ != device;
    beside_.emplace();
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    beside_.reset();
    if (moved_ && cudaSetDevice(before_) != cudaSuccess) cudaGetLastError();  // of nothing that was asked for
  }

 private:
  int before_ = 0;
  bool moved_ = false;
  std::optional<BesideCaptures> beside_;  // made and ended on that device
};

// Purpose: events of one device that nobody uses at present: making one takes longer than recording it. Any
// thread may call it; guarded by its mutex. Lives as long as the last fence.
class EventPool {
 public:
  explicit EventPool(int device) : device_(device) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool() {
    for (cudaEvent_t event : free_) cudaEventDestroy(event);
  }

  int device() const { return device_; }
  cudaEvent_t take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        const cudaEvent_t event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    const OnDevice here(device_);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return event;
  }
  void give_back(cudaEvent_t event) {
    std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

// Purpose: an event that has been recorded.
class CudaFence final : public Fence {
 public:
  CudaFence(std::shared_ptr<EventPool> pool, DeviceStream stream)
      : pool_(std::move(pool)), event_(pool_->take()) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t rc = cudaStreamIsCapturing(stream_of(stream), &status);
    captured_ = status != cudaStreamCaptureStatusNone;
    if (rc == cudaSuccess) rc = cudaEventRecord(event_, stream_of(stream));
    if (rc != cudaSuccess) pool_->give_back(event_);
    check(rc, "cudaEventRecord");
  }
  CudaFence(const CudaFence&) = delete;
  CudaFence& operator=(const CudaFence&) = delete;
  ~CudaFence() override { pool_->give_back(event_); }

  bool passed() const override {
    if (captured_) return true;
    try {
      const OnDevice here(pool_->device());
      return cudaEventQuery(event_) != cudaErrorNotReady;
    } catch (const BackendError&) {  // as what has failed there: the process ends, say
      return true;
    }
  }
  bool captured() const override { return captured_; }
  void hold_back(DeviceStream stream) const override {
    const OnDevice here(pool_->device());  // the default stream is that of the current device
    check(cudaStreamWaitEvent(stream_of(stream), event_, 0), "cudaStreamWaitEvent");
  }

 private:
  std::shared_ptr<EventPool> pool_;
  cudaEvent_t event_;
  bool captured_ = false;
};

// Purpose: see DeviceQueue.
class CudaQueue final : public DeviceQueue {
 public:
  CudaQueue(int device, std::shared_ptr<EventPool> events) : device_(device), events_(std::move(events)) {
    const OnDevice here(device_);
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
          "cudaStreamCreateWithPriority");
  }
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;
  ~CudaQueue() override { cudaStreamDestroy(stream_); }  // what it has been given goes on

  void copy(void* to, const void* from, std::size_t bytes) override {
    const OnDevice here(device_);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }
  void copy(const BatchCopy& copies) override {
    const OnDevice here(device_);
    launch_batch_copy(copies, stream_);
  }
  std::shared_ptr<const Fence> record() override { return std::make_shared<CudaFence>(events_, stream_); }
  DeviceStream stream() const override { return stream_; }

 private:
  int device_;
  std::shared_ptr<EventPool> events_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

// Purpose: see Device.
class CudaDevices::OneDevice final : public Device {
 public:
  explicit OneDevice(int number) : number_(number), events_(std::make_shared<EventPool>(number)) {}

  int number() const override { return number_; }
  std::shared_ptr<const Fence> record(DeviceStream stream) override {
    const OnDevice here(number_);  // as hold_back
    return std::make_shared<CudaFence>(events_, stream);
  }
  void make_current() override {
    check(cudaSetDevice(number_), "cudaSetDevice");
    cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;  // of a thread that captures nothing itself
    check(cudaThreadExchangeStreamCaptureMode(&relaxed), "cudaThreadExchangeStreamCaptureMode");
  }
  void as_current(const std::function<void()>& call) override {
    const OnDevice here(number_);
    call();
  }
  std::unique_ptr<DeviceQueue> make_queue() override { return std::make_unique<CudaQueue>(number_, events_); }
  std::shared_ptr<std::byte> memory(std::size_t bytes) override {
    const OnDevice here(number_);
    void* memory = nullptr;
    const cudaError_t rc = cudaMalloc(&memory, bytes);
    return made(rc, "cudaMalloc", memory, [](std::byte* data) {
      const BesideCaptures beside;
      cudaFree(data);
    });
  }
  std::shared_ptr<std::byte> pinned(std::size_t bytes) override {
    const OnDevice here(number_);
    void* memory = nullptr;
    const cudaError_t rc = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    return made(rc, "cudaHostAlloc", memory, [](std::byte* data) {
      const BesideCaptures beside;
      cudaFreeHost(data);
    });
  }
  void synchronize() override {
    try {
      const OnDevice here(number_);
      if (cudaDeviceSynchronize() != cudaSuccess) cudaGetLastError();  // of nothing that was asked for
    } catch (const BackendError&) {                                    // as a fence's
    }
  }
  std::string identity() const override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, number_), "cudaGetDeviceProperties");
    return {properties.uuid.bytes, sizeof properties.uuid.bytes};
  }

 private:
  template <class Free>
  static std::shared_ptr<std::byte> made(cudaError_t rc, const char* call, void* memory, Free free) {
    if (rc == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // said here
      throw std::bad_alloc();
    }
    check(rc, call);
    return {static_cast<std::byte*>(memory), free};
  }

  int number_;
  std::shared_ptr<EventPool> events_;
};

CudaDevices::CudaDevices() = default;
CudaDevices::~CudaDevices() = default;

void CudaDevices::look() {
  std::lock_guard lock(mutex_);
  if (looked_) return;
  looked_ = true;
  CudaFound found = find_cuda();
  problem_ = std::move(found.problem);
  for (int number = 0; number < found.devices; ++number)
    devices_.push_back(std::make_unique<OneDevice>(number));
}

std::string CudaDevices::problem() {
  look();
  return problem_;
}

CudaDevices::OneDevice& CudaDevices::device(int number) {
  look();
  if (number < 0 || static_cast<std::size_t>(number) >= devices_.size()) {
    refuse(fmt::format("there is no CUDA device {}; this process sees {} of them{}.", number, devices_.size(),
                       problem_.empty() ? "" : fmt::format(" ({})", problem_)));
  }
  return *devices_[static_cast<std::size_t>(number)];
}

std::shared_ptr<const Fence> CudaDevices::record(int number, DeviceStream stream) {
  return device(number).record(stream);
}

Device& CudaDevices::at(int number) { return device(number); }

}  // namespace rueda
