// SPDX-License-Identifier: Apache-2.0
// How busy the GPUs of this machine are, by NVML.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rueda {

// One GPU as it is now. A plain value.
struct GpuLoad {
  static constexpr std::int32_t kUnknown = -1;

  std::string name;
  std::int32_t busy_percent = kUnknown;  // of the time, something has run on it
  std::int32_t celsius = kUnknown;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_used = 0;
  bool operator==(const GpuLoad&) const = default;
};

// Purpose: asks NVML once a second, in a thread of its own, since a driver may take seconds. The thread
// begins with the first read(), rests while nobody reads, and ends without NVML. It may outlive this
// object. Owned by the agent's thread.
class GpuWatch {
 public:
  // `library`: of NVML; another one in tests.
  explicit GpuWatch(std::string library = "libnvidia-ml.so.1");
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // The last answers, unless they are 3 s old; none for ever without NVML. Never waits.
  std::vector<GpuLoad> read();

  static constexpr std::size_t kMostGpus = 32;

 private:
  struct Shared;

  const std::string library_;
  std::shared_ptr<Shared> shared_;  // null: nobody has read
};

}  // namespace rueda
