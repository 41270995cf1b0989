// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/gpu_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <thread>

namespace rueda {
namespace {

using namespace std::chrono_literals;

// Waits for answers, which come from another thread.
std::vector<GpuLoad> answers_of(GpuWatch& watch, int busy_above) {
  for (int i = 0; i < 2000; ++i) {
    std::vector<GpuLoad> gpus = watch.read();
    if (!gpus.empty() && gpus[0].busy_percent > busy_above) return gpus;
    std::this_thread::sleep_for(10ms);
  }
  return {};
}

TEST(GpuWatch, TellsTheAnswersOfEachDevice) {
  GpuWatch watch(RUEDA_FAKE_NVML_LIBRARY);
  const std::vector<GpuLoad> gpus = answers_of(watch, 0);
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].name, "Fake H200");
  EXPECT_EQ(gpus[0].celsius, 54);
  EXPECT_EQ(gpus[0].memory_bytes, 80ULL << 30);
  EXPECT_EQ(gpus[0].memory_used, 20ULL << 30);
  EXPECT_EQ(gpus[1], (GpuLoad{.name = "Fake MIG", .memory_bytes = 10ULL << 30, .memory_used = 1ULL << 30}));
  EXPECT_EQ(answers_of(watch, gpus[0].busy_percent).size(), 2U) << "it looks again";
}

TEST(GpuWatch, HasNoneWithoutLibraryOrDriver) {
  GpuWatch nothing("libno-such-library.so.1"), other("libc.so.6");
  ::setenv("RUEDA_FAKE_NVML", "none", 1);
  GpuWatch without_driver(RUEDA_FAKE_NVML_LIBRARY);
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(nothing.read().empty());
    EXPECT_TRUE(other.read().empty());
    EXPECT_TRUE(without_driver.read().empty());
    std::this_thread::sleep_for(10ms);
  }
  ::unsetenv("RUEDA_FAKE_NVML");
}

// Old answers would hide that the driver hangs.
TEST(GpuWatch, HasNoneOnceTheDriverHangs) {
  ::setenv("RUEDA_FAKE_NVML", "hangs", 1);
  GpuWatch watch(RUEDA_FAKE_NVML_LIBRARY);
  std::vector<GpuLoad> gpus;
  const auto until = std::chrono::steady_clock::now() + 15s;
  bool had_some = false;
  do {
    gpus = watch.read();
    had_some = had_some || !gpus.empty();
    std::this_thread::sleep_for(10ms);
  } while ((!had_some || !gpus.empty()) && std::chrono::steady_clock::now() < until);
  EXPECT_TRUE(had_some);
  EXPECT_TRUE(gpus.empty());
  ::unsetenv("RUEDA_FAKE_NVML");
}

TEST(GpuWatch, EndsWhileItWatches) {
  for (int i = 0; i < 50; ++i) {
    GpuWatch watch(RUEDA_FAKE_NVML_LIBRARY);
    watch.read();
  }
}

}  // namespace
}  // namespace rueda
