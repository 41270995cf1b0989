// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/machine.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace rueda {
namespace {

namespace fs = std::filesystem;

TEST(Machine, ThisOneHasMemoryAndProcessors) {
  const MachineMemory memory = machine_memory();
  EXPECT_GT(memory.available, 0U);
  EXPECT_LT(memory.available, memory.installed);
  EXPECT_EQ(usable_processors().size(), std::thread::hardware_concurrency());
}

TEST(Machine, FilesAreReadAsTheKernelWritesThem) {
  std::string root = "/tmp/rueda_test_XXXXXX";
  ::mkdtemp(root.data());
  fs::create_directories(root + "/proc/self");
  fs::create_directories(root + "/sys/fs/cgroup/job");
  std::ofstream(root + "/proc/meminfo") << "MemTotal: 8 kB\nnonsense\nMemFree: 1 kB\nMemAvailable:  3 kB\n";
  std::ofstream(root + "/proc/self/cgroup") << "0::/job\n";
  std::ofstream(root + "/sys/fs/cgroup/job/cpu.max") << "150000 100000\n";
  std::ofstream(root + "/sys/fs/cgroup/job/cpu.stat") << "usage_usec 77\nuser_usec 1\n";
  EXPECT_EQ(machine_memory(root).installed, 8U << 10);
  EXPECT_EQ(machine_memory(root).available, 3U << 10);
  EXPECT_EQ(own_limits(root).millicores, 1500);
  EXPECT_EQ(own_limits(root).cpu_microseconds, 77U);
  EXPECT_EQ(machine_memory(root + "/none").installed, 0U);
  EXPECT_EQ(own_limits(root + "/none"), CgroupLimits{});
  fs::remove_all(root);
}

}  // namespace
}  // namespace rueda
