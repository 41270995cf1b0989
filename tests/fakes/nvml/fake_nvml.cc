// SPDX-License-Identifier: Apache-2.0
// A library like NVML, with two GPUs: one knows everything, the other only its memory. The first one gets
// busier with each look. RUEDA_FAKE_NVML=none: it has no driver; hangs: from the second look on.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kDriverNotLoaded = 9;
constexpr unsigned long long kGigabyte = 1ULL << 30;
std::atomic<unsigned> looks = 0, hangs_at = ~0U;
int devices[2];

bool is_first(const void* device) { return device == &devices[0]; }

// A test that follows may wait for signals, which must not come to this thread.
void hang() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::sleep(20);
}

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): names of NVML's
int nvmlInit_v2() {
  const char* words = std::getenv("RUEDA_FAKE_NVML");
  hangs_at = words != nullptr && std::string_view(words) == "hangs" ? looks + 1 : ~0U;
  return words != nullptr && std::string_view(words) == "none" ? kDriverNotLoaded : kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  if (looks >= hangs_at) hang();
  *count = 2;
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return kSuccess;
}

int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  std::strncpy(name, is_first(device) ? "Fake H200" : "Fake MIG", length);
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned* percent) {
  if (!is_first(device)) return kNotSupported;
  percent[0] = 40 + looks++;
  percent[1] = 7;
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* bytes) {
  bytes[0] = is_first(device) ? 80 * kGigabyte : 10 * kGigabyte;
  bytes[2] = is_first(device) ? 20 * kGigabyte : 1 * kGigabyte;
  bytes[1] = bytes[0] - bytes[2];
  return kSuccess;
}

int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  if (!is_first(device) || sensor != 0) return kNotSupported;
  *celsius = 54;
  return kSuccess;
}
// NOLINTEND(readability-identifier-naming)

}  // extern "C"
