// SPDX-License-Identifier: Apache-2.0
// The facts of this host agree with what the system says in another way.
#include "launcher/doctor/host_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <thread>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

TEST(HostFacts, OfMemory) {
  const agents::MemoryFacts facts = memory_facts();
  EXPECT_EQ(facts.shm_problem, "");
  EXPECT_EQ(facts.memfd_problem, "");
  EXPECT_GT(facts.shm_bytes, 0u);
  EXPECT_LE(facts.shm_free, facts.shm_bytes);
  EXPECT_GT(facts.available, 0u);
  EXPECT_LT(facts.available, facts.installed);
}

TEST(HostFacts, OfCores) {
  const agents::CoreFacts facts = core_facts();
  EXPECT_EQ(facts.usable, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_LE(facts.usable, facts.online);
  EXPECT_LE(facts.physical, facts.usable);
}

TEST(HostFacts, OfLimits) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit lower{std::min<rlim_t>(before.rlim_cur, 200), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &lower);
  const agents::ProcessFacts facts = process_facts();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(facts.open_files.soft, lower.rlim_cur);
  EXPECT_EQ(facts.is_root, ::geteuid() == 0);
  EXPECT_GT(facts.threads_of_user, 0u);
}

TEST(HostFacts, FilesOfEndedJobsAreNamedAndOpenOnesAreNot) {
  const std::string left = fmt::format("/mpich_shm_test_left_{}", ::getpid());
  const std::string open = fmt::format("/mpich_shm_test_open_{}", ::getpid());
  const std::string other = fmt::format("/of_somebody_{}", ::getpid());
  const std::string young = fmt::format("/mpich_shm_test_young_{}", ::getpid());
  for (const std::string& name : {left, open, other, young}) {
    const Descriptor file(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    ASSERT_TRUE(file);
    ASSERT_EQ(::ftruncate(file.number(), 4096), 0);
    const timespec hour_ago{.tv_sec = std::time(nullptr) - 3600, .tv_nsec = 0};
    if (name != young) ASSERT_EQ(::futimens(file.number(), std::array{hour_ago, hour_ago}.data()), 0);
  }
  const Descriptor held(::shm_open(open.c_str(), O_RDWR | O_CLOEXEC, 0600));
  const agents::ProcessFacts facts = process_facts();
  for (const std::string& name : {left, open, other, young}) ::shm_unlink(name.c_str());
  const auto has = [&](const std::string& name) {
    return std::ranges::find(facts.left_files, "/dev/shm" + name) != facts.left_files.end();
  };
  EXPECT_TRUE(has(left));
  EXPECT_FALSE(has(open));
  EXPECT_FALSE(has(other));
  EXPECT_FALSE(has(young));
  EXPECT_GE(facts.left_bytes, 4096u);
}

}  // namespace
}  // namespace rueda
