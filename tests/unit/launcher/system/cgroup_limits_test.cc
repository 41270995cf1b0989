// SPDX-License-Identifier: Apache-2.0
// Limits of control groups of both versions, from planted files.
#include "launcher/system/cgroup_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace rueda {
namespace {

namespace fs = std::filesystem;

class CgroupLimitsTest : public testing::Test {
 protected:
  CgroupLimitsTest() {
    std::string path = testing::TempDir() + "cgroupXXXXXX";
    root_ = ::mkdtemp(path.data());
  }
  ~CgroupLimitsTest() override { fs::remove_all(root_); }

  void plant(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  fs::path root_;
};

TEST_F(CgroupLimitsTest, NothingThereIsNoLimit) {
  EXPECT_EQ(cgroup_limits("", root_), CgroupLimits{});
  EXPECT_EQ(cgroup_limits("0::/a/b\nnonsense\n7:cpu", root_), CgroupLimits{});
}

TEST_F(CgroupLimitsTest, TheSmallestOnTheWayCounts) {
  plant("a/cpu.max", "250000 100000");
  plant("a/b/cpu.max", "max 100000");
  plant("a/memory.max", "1000000");
  plant("a/memory.current", "4096");
  plant("a/b/memory.max", "max");
  EXPECT_EQ(cgroup_limits("0::/a/b\n", root_), (CgroupLimits{2500, 1'000'000, 4096}));
  plant("a/b/cpu.max", "50000 100000");
  plant("a/cpu.stat", "usage_usec 40");
  plant("a/b/cpu.stat", "user_usec 1\nusage_usec 30");
  EXPECT_EQ(cgroup_limits("0::/a/b\n", root_).millicores, 500);
  EXPECT_EQ(cgroup_limits("0::/a/b\n", root_).cpu_microseconds, 30u);
  EXPECT_EQ(cgroup_limits("0::/\n", root_), CgroupLimits{});
}

TEST_F(CgroupLimitsTest, VersionOneHasAFolderForEachController) {
  plant("cpu,cpuacct/a/cpu.cfs_quota_us", "150000");
  plant("cpu,cpuacct/a/cpu.cfs_period_us", "100000");
  plant("memory/a/memory.limit_in_bytes", "2000000");
  plant("memory/a/memory.usage_in_bytes", "5000");
  plant("memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(cgroup_limits("4:cpu,cpuacct:/a\n3:memory:/a\n", root_), (CgroupLimits{1500, 2'000'000, 5000}));
  plant("cpu,cpuacct/a/cpuacct.usage", "7000000");
  EXPECT_EQ(cgroup_limits("4:cpu,cpuacct:/a\n", root_).cpu_microseconds, 7000u);
  plant("cpu,cpuacct/a/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(cgroup_limits("4:cpu,cpuacct:/a\n", root_).millicores, 0);
}

TEST_F(CgroupLimitsTest, TheGroupWithTheLeastLeftCounts) {
  plant("a/memory.max", "1000");
  plant("a/memory.current", "990");
  plant("a/b/memory.max", "500");
  plant("a/b/memory.current", "100");
  EXPECT_EQ(cgroup_limits("0::/a/b\n", root_).memory, 1000u);
  EXPECT_EQ(cgroup_limits("0::/a/b\n", root_).memory_used, 990u);
  plant("a/pids.max", "100");
  plant("a/pids.current", "20");
  plant("a/b/pids.max", "max");
  EXPECT_EQ(cgroup_limits("0::/a/b\n", root_).processes, 100u);
  EXPECT_EQ(cgroup_limits("0::/a/b\n", root_).processes_used, 20u);
}

TEST_F(CgroupLimitsTest, FilesThatTheKernelCanDropAreNotInUse) {
  plant("a/memory.max", "1000");
  plant("a/memory.current", "990");
  plant("a/memory.stat", "anon 90\nfile 900\ninactive_file 800");
  EXPECT_EQ(cgroup_limits("0::/a\n", root_).memory_used, 190u);
  plant("memory/m/memory.limit_in_bytes", "1000");
  plant("memory/m/memory.usage_in_bytes", "990");
  plant("memory/m/memory.stat", "inactive_file 1\ntotal_inactive_file 700");
  EXPECT_EQ(cgroup_limits("3:memory:/m\n", root_).memory_used, 290u);
  plant("pids/m/pids.max", "7");
  EXPECT_EQ(cgroup_limits("8:pids:/m\n", root_).processes, 7u);
}

}  // namespace
}  // namespace rueda
