// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/host_load.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

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
