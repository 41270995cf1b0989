// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/devices/bench_device.h"

#include <thread>

namespace rueda::bench {

void BenchDevice::finish() {
  const auto fence = queue_->record();
  while (!fence->passed()) std::this_thread::yield();
}

std::shared_ptr<std::byte> BenchDevice::pinned(std::size_t bytes) {
  struct Both {
    Both(std::shared_ptr<std::byte> pinned, std::shared_ptr<std::byte> twin,
         std::map<const void*, std::byte*>& twins)
        : pinned(std::move(pinned)), twin(std::move(twin)), twins(twins) {
      twins[this->pinned.get()] = this->twin.get();
    }
    Both(const Both&) = delete;
    Both& operator=(const Both&) = delete;
    ~Both() { twins.erase(pinned.get()); }
    std::shared_ptr<std::byte> pinned;
    std::shared_ptr<std::byte> twin;
    std::map<const void*, std::byte*>& twins;
  };
  const auto both = std::make_shared<Both>(device().pinned(bytes), device().memory(bytes), twins_);
  return {both, both->pinned.get()};
}

}  // namespace rueda::bench
