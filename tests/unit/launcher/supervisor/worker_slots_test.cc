// SPDX-License-Identifier: Apache-2.0
// Where another worker may run.
#include "launcher/supervisor/worker_slots.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

const std::vector<HostSlots> kHosts{{"a", 2}, {"b", 2}};

WorkerSlots slots(int ranks, int all) {
  return WorkerSlots(place_ranks(ranks, kHosts, "here"), place_ranks(all, kHosts, "here"), ranks);
}

TEST(WorkerSlots, AFreeOneIsThatOfALostWorker) {
  WorkerSlots all = slots(4, 4);
  all.open(0);
  all.open(1);
  EXPECT_EQ(all.taken(), 4);
  EXPECT_EQ(all.free_one(), nullptr);
  all.free_slot_of(2, true);
  ASSERT_NE(all.free_one(), nullptr);
  EXPECT_EQ(all.free_one()->host, 1);
  EXPECT_EQ(all.free_one()->local_rank, 0);
  all.free_one()->worker = 4;
  EXPECT_EQ(all.free_one(), nullptr);
  EXPECT_EQ(all.taken(), 4);
}

TEST(WorkerSlots, OneWhoseWorkerNeverTookPartIsNotUsedAgain) {
  WorkerSlots all = slots(2, 2);
  all.open(0);
  all.free_slot_of(1, false);
  EXPECT_EQ(all.free_one(), nullptr);
  all.free_slot_of(0, true);
  EXPECT_NE(all.free_one(), nullptr);
}

TEST(WorkerSlots, AHostCountsFromItsAgentsComingToItsEnd) {
  WorkerSlots all = slots(3, 4);
  EXPECT_EQ(all.free_one(), nullptr);
  all.open(1);
  ASSERT_NE(all.free_one(), nullptr);
  EXPECT_EQ(all.free_one()->local_rank, 1);
  all.lose_host(1);
  EXPECT_EQ(all.free_one(), nullptr);
  EXPECT_EQ(all.taken(), 2);
}

TEST(WorkerSlots, HostsWithoutARankAtTheStartDoNotCount) {
  WorkerSlots all = slots(2, 4);
  all.open(0);
  EXPECT_EQ(all.free_one(), nullptr);
}

}  // namespace
}  // namespace rueda
