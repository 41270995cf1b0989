// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/pending_operation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace rueda {
namespace {

using namespace std::chrono_literals;

TEST(PendingOperation, IsNotOverBeforeItHasBegun) {
  const auto later = std::make_shared<LaterHandle>();
  const PendingOperation operation(later);
  EXPECT_FALSE(operation.done());
  EXPECT_FALSE(operation.ends_by(clock_now() + 1ms));
  EXPECT_EQ(operation.source(), -1);
}

TEST(PendingOperation, OneThatCouldNotBeginHasTheReason) {
  const auto later = std::make_shared<LaterHandle>();
  const PendingOperation operation(later);
  later->fail(Status::stalled("the other rank did not come"));
  EXPECT_TRUE(operation.done());
  EXPECT_TRUE(operation.ends_by(clock_now()));
  EXPECT_EQ(operation.status().message, "the other rank did not come");
}

TEST(PendingOperation, WhoWaitsIsWokenWhenItBegins) {
  const auto later = std::make_shared<LaterHandle>();
  const PendingOperation operation(later);
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    later->set(Handle(), 3);
  });
  EXPECT_TRUE(later->known_by(clock_now() + 60s));
  other.join();
  EXPECT_EQ(operation.source(), 3);
}

}  // namespace
}  // namespace rueda
