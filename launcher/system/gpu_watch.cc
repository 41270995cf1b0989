// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/gpu_watch.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/system/signals.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kBetweenLooks = 1s;
constexpr auto kUntilRest = 5s;  // nobody reads any more
constexpr auto kOld = 3s;        // of answers: the driver hangs, or nobody has asked for long
constexpr int kSuccess = 0;      // of NVML's functions
constexpr unsigned kOfGpu = 0;   // the sensor of temperatures

using Device = void*;
struct Utilization {
  unsigned gpu = 0, memory = 0;  // percent
};
struct MemoryInfo {
  unsigned long long total = 0, free = 0, used = 0;  // bytes
};

// Purpose: NVML's functions, as long as the process lives. A plain value.
struct Nvml {
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, MemoryInfo*) = nullptr;
  int (*temperature)(Device, unsigned, unsigned*) = nullptr;

  static std::optional<Nvml> load(const std::string& library);
  std::vector<GpuLoad> look() const;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::optional<Nvml> Nvml::load(const std::string& library) {
  void* const loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return std::nullopt;
  Nvml nvml;
  const bool has_all = find(loaded, "nvmlInit_v2", nvml.init) &&
                       find(loaded, "nvmlDeviceGetCount_v2", nvml.count) &&
                       find(loaded, "nvmlDeviceGetHandleByIndex_v2", nvml.device) &&
                       find(loaded, "nvmlDeviceGetName", nvml.name) &&
                       find(loaded, "nvmlDeviceGetUtilizationRates", nvml.utilization) &&
                       find(loaded, "nvmlDeviceGetMemoryInfo", nvml.memory) &&
                       find(loaded, "nvmlDeviceGetTemperature", nvml.temperature);
  if (!has_all || nvml.init() != kSuccess) return std::nullopt;
  return nvml;
}

// A device may know only some of the answers.
std::vector<GpuLoad> Nvml::look() const {
  std::vector<GpuLoad> gpus;
  unsigned devices = 0;
  if (count(&devices) != kSuccess) return gpus;
  for (unsigned i = 0; i < std::min<std::size_t>(devices, GpuWatch::kMostGpus); ++i) {
    Device handle = nullptr;
    if (device(i, &handle) != kSuccess) continue;
    GpuLoad& gpu = gpus.emplace_back();
    std::array<char, 96> text{};
    if (name(handle, text.data(), text.size()) == kSuccess)
      gpu.name.assign(text.data(), ::strnlen(text.data(), 64));
    Utilization busy;
    if (utilization(handle, &busy) == kSuccess)
      gpu.busy_percent = static_cast<std::int32_t>(std::min(busy.gpu, 100U));
    unsigned celsius = 0;
    if (temperature(handle, kOfGpu, &celsius) == kSuccess)
      gpu.celsius = static_cast<std::int32_t>(std::min(celsius, 1000U));
    MemoryInfo info;
    if (memory(handle, &info) != kSuccess) continue;
    gpu.memory_bytes = info.total;
    gpu.memory_used = std::min(info.used, info.total);
  }
  return gpus;
}

}  // namespace

// Guarded by the mutex.
struct GpuWatch::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<GpuLoad> gpus;
  Clock::time_point looked_at{};
  Clock::time_point read_at{};
  bool is_over = false;

  void watch(const std::string& library);
  bool await_reader();
};

// False at the end.
bool GpuWatch::Shared::await_reader() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return is_over || Clock::now() < read_at + kUntilRest; });
  return !is_over;
}

void GpuWatch::Shared::watch(const std::string& library) {
  const std::optional<Nvml> nvml = Nvml::load(library);
  while (nvml && await_reader()) {
    std::vector<GpuLoad> now = nvml->look();
    std::unique_lock lock(mutex);
    gpus = std::move(now);
    looked_at = Clock::now();
    changed.wait_for(lock, kBetweenLooks, [this] { return is_over; });
  }
}

GpuWatch::GpuWatch(std::string library) : library_(std::move(library)) {}

GpuWatch::~GpuWatch() {
  if (!shared_) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->is_over = true;
  shared_->changed.notify_all();
}

std::vector<GpuLoad> GpuWatch::read() {
  const bool begins = shared_ == nullptr;
  if (begins) shared_ = std::make_shared<Shared>();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->read_at = Clock::now();
    shared_->changed.notify_all();
    if (!begins && Clock::now() < shared_->looked_at + kOld) return shared_->gpus;
    if (!begins) return {};
  }
  try {
    thread_without_signals([shared = shared_, library = library_] { shared->watch(library); }).detach();
  } catch (const std::system_error&) {  // no thread is left: the page has no GPUs
  }
  return {};
}

}  // namespace rueda
