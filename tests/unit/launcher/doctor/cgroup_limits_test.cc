// SPDX-License-Identifier: Apache-2.0
// Limits of control groups of both versions, from planted files.
#include "launcher/doctor/cgroup_limits.h"

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
  EXPECT_EQ(cgroup_limits("0::/a/b\n", root_).millicores, 500);
  EXPECT_EQ(cgroup_limits("0::/\n", root_), CgroupLimits{});
}

TEST_F(CgroupLimitsTest, VersionOneHasAFolderForEachController) {
  plant("cpu,cpuacct/a/cpu.cfs_quota_us", "150000");
  plant("cpu,cpuacct/a/cpu.cfs_period_us", "100000");
  plant("memory/a/memory.limit_in_bytes", "2000000");
  plant("memory/a/memory.usage_in_bytes", "5000");
  plant("memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(cgroup_limits("4:cpu,cpuacct:/a\n3:memory:/a\n", root_), (CgroupLimits{1500, 2'000'000, 5000}));
  plant("cpu,cpuacct/a/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(cgroup_limits("4:cpu,cpuacct:/a\n", root_).millicores, 0);
}

}  // namespace
}  // namespace rueda
