// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/host_load.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace rueda {
namespace {

namespace fs = std::filesystem;

// A machine of files.
class Machine {
 public:
  Machine() {
    std::string name = "/tmp/rueda_test_XXXXXX";
    root = ::mkdtemp(name.data());
  }
  ~Machine() { fs::remove_all(root); }

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }

  std::string root;
};

TEST(HostLoad, ReadsThisMachine) {
  HostLoadReader reader;
  const agents::HostLoad load = reader.read();
  EXPECT_GE(load.cores, 1);
  EXPECT_GT(load.memory_bytes, 1 << 20);
  EXPECT_GT(load.memory_used, 0);
  EXPECT_LE(load.busy, 1);
}

TEST(HostLoad, BusyIsTheShareSinceTheReadingBefore) {
  const Machine machine;
  HostLoadReader reader(machine.root);
  machine.put("/proc/stat", "cpu 100 0 100 800 0 0 0 0\n");
  EXPECT_NEAR(reader.read().busy, 0.2, 1e-9);
  machine.put("/proc/stat", "cpu 130 0 150 810 10 0 0 0\n");
  EXPECT_NEAR(reader.read().busy, 0.8, 1e-9);
}

TEST(HostLoad, BusyIsOfTheProcessorsThatThisProcessMayUse) {
  const Machine machine;
  HostLoadReader reader(machine.root);
  machine.put("/proc/stat",
              "cpu 400 0 0 400 0 0 0 0\ncpu0 0 0 0 200 0 0 0 0\ncpu1 200 0 0 0 0 0 0 0\n"
              "cpu2 200 0 0 0 0 0 0 0\ncpu3 0 0 0 200 0 0 0 0\nintr 5\n");
  EXPECT_NEAR(reader.read({0, 3}, 0).busy, 0, 1e-9) << "others are busy";
  machine.put("/proc/stat",
              "cpu 475 0 0 725 0 0 0 0\ncpu0 75 0 0 225 0 0 0 0\ncpu1 200 0 0 100 0 0 0 0\n"
              "cpu2 200 0 0 100 0 0 0 0\ncpu3 0 0 0 300 0 0 0 0\nintr 5\n");
  const agents::HostLoad load = reader.read({0, 3}, 1);
  EXPECT_NEAR(load.busy, 75.0 / 200, 1e-9);
  EXPECT_EQ(load.cores, 2);
}

TEST(HostLoad, BusyIsOfTheQuotaOfTheControlGroup) {
  const Machine machine;
  HostLoadReader reader(machine.root);
  const std::set<int> processors{0, 1, 2, 3};
  machine.put("/proc/self/cgroup", "0::/job\n");
  machine.put("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  machine.put("/sys/fs/cgroup/job/cpu.stat", "usage_usec 5000000\nuser_usec 1\n");
  machine.put("/proc/stat", "cpu 400 0 0 0 0 0 0 0\n");
  EXPECT_EQ(reader.read(processors, 7'000'000'000).busy, 0);
  machine.put("/sys/fs/cgroup/job/cpu.stat", "usage_usec 5300000\nuser_usec 1\n");
  const agents::HostLoad load = reader.read(processors, 8'200'000'000);
  EXPECT_NEAR(load.busy, 0.3 / (1.5 * 1.2), 1e-9);
  EXPECT_EQ(load.cores, 2);
  EXPECT_EQ(reader.read(processors, 8'400'000'000).busy, load.busy) << "read once a second";
  machine.put("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
  machine.put("/proc/stat", "cpu 500 0 0 0 0 0 0 0\n");
  EXPECT_EQ(reader.read(processors, 9'200'000'000).busy, 1) << "there is no limit any more";
}

TEST(HostLoad, ALimitOfTheControlGroupIsTheMemory) {
  const Machine machine;
  machine.put("/proc/meminfo", "MemTotal: 8000 kB\nMemFree: 1 kB\nMemAvailable: 3000 kB\n");
  EXPECT_EQ(HostLoadReader(machine.root).read().memory_used, 5000 << 10);
  machine.put("/proc/self/cgroup", "0::/job\n");
  machine.put("/sys/fs/cgroup/job/memory.max", "4096000\n");
  machine.put("/sys/fs/cgroup/job/memory.current", "3000000\n");
  machine.put("/sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 1000000\n");
  const agents::HostLoad load = HostLoadReader(machine.root).read();
  EXPECT_EQ(load.memory_bytes, 4'096'000);
  EXPECT_EQ(load.memory_used, 2'000'000);
  machine.put("/sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(HostLoadReader(machine.root).read().memory_bytes, 8000 << 10);
}

TEST(HostLoad, FilesThatChangeRarelyAreReadOnceASecond) {
  const Machine machine;
  HostLoadReader reader(machine.root);
  machine.put("/proc/net/dev", "eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n");
  machine.put("/proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 3000 kB\n");
  machine.put("/sys/class/net/eth0/speed", "1000\n");
  EXPECT_EQ(reader.read({0}, 0).cards.at(0).limit, 125e6);
  machine.put("/proc/net/dev", "eth0: 300 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n");
  machine.put("/proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 1000 kB\n");
  machine.put("/sys/class/net/eth0/speed", "100\n");
  const agents::HostLoad soon = reader.read({0}, 999'999'999);
  EXPECT_EQ(soon.cards.at(0).limit, 125e6);
  EXPECT_EQ(soon.cards.at(0).received_bytes, 300);
  EXPECT_EQ(soon.memory_used, 5000 << 10);
  const agents::HostLoad later = reader.read({0}, 1'000'000'000);
  EXPECT_EQ(later.cards.at(0).limit, 12.5e6);
  EXPECT_EQ(later.memory_used, 7000 << 10);
}

TEST(HostLoad, CardsHaveBytesAndWhereKnownALimit) {
  const Machine machine;
  machine.put("/proc/net/dev",
              "Inter-|   Receive  |  Transmit\n face |bytes    packets\n"
              "    lo: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n"
              "  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n"
              "  veth1: 5 1 0 0 0 0 0 0 6 2 0 0 0 0 0 0\n"
              "  down: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\nnonsense: x\n");
  machine.put("/sys/class/net/eth0/speed", "1000\n");
  machine.put("/sys/class/net/veth1/speed", "10000\n");
  machine.put("/sys/devices/virtual/net/veth1/mtu", "1500\n");
  machine.put("/sys/class/net/down/speed", "-1\n");
  const agents::HostLoad load = HostLoadReader(machine.root).read();
  ASSERT_EQ(load.cards.size(), 3);
  EXPECT_EQ(load.cards[0], (agents::HostLoad::Card{"eth0", 200, 100, 125e6}));
  EXPECT_EQ(load.cards[1], (agents::HostLoad::Card{"veth1", 6, 5, 0}));
  EXPECT_EQ(load.cards[2].limit, 0);
}

}  // namespace
}  // namespace rueda
