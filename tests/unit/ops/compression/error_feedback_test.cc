// SPDX-License-Identifier: Apache-2.0
#include "ops/compression/error_feedback.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <optional>

#include "core/engine/work.h"

namespace rueda {
namespace {

const Memory kMemory;
constexpr ErrorFeedback::Cut kFour{4, 4, 0};

// A turn that comes at once.
std::optional<ErrorFeedback::Lease> take(ErrorFeedback& residuals, const Key& key,
                                         const ErrorFeedback::Cut& cut = kFour,
                                         const Memory& memory = kMemory) {
  std::optional<ErrorFeedback::Lease> lease(residuals.lease(key));
  if (!lease->begin(cut, memory)) lease.reset();
  return lease;
}

void fill(const ErrorFeedback::Lease& lease, float value) { std::fill_n(lease.after(), 4, value); }

TEST(ErrorFeedback, AreThereNextTime) {
  ErrorFeedback residuals;
  {
    auto lease = take(residuals, {0, "a"});
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->before(), nullptr);
    fill(*lease, 1.0f);
    lease->commit();
  }
  for (const float value : {2.0f, 3.0f}) {
    auto lease = take(residuals, {0, "a"});
    ASSERT_NE(lease->before(), nullptr);
    EXPECT_EQ(lease->before()[3], value - 1.0f);
    fill(*lease, value);
    EXPECT_EQ(lease->before()[3], value - 1.0f) << "both are there";
    lease->commit();
  }
  EXPECT_EQ(take(residuals, {1, "a"})->before(), nullptr) << "of another process set";
  EXPECT_EQ(take(residuals, {0, "b"})->before(), nullptr);
}

TEST(ErrorFeedback, StayAsTheyWereWithoutCommit) {
  ErrorFeedback residuals;
  fill(*take(residuals, {0, "a"}), 1.0f);
  EXPECT_EQ(take(residuals, {0, "a"})->before(), nullptr);
  {
    auto lease = take(residuals, {0, "a"});
    fill(*lease, 2.0f);
    lease->commit();
  }
  fill(*take(residuals, {0, "a"}), 3.0f);
  EXPECT_EQ(take(residuals, {0, "a"})->before()[0], 2.0f);
}

TEST(ErrorFeedback, ACutThatChangesBeginsAnew) {
  for (const ErrorFeedback::Cut& other :
       {ErrorFeedback::Cut{5, 4, 0}, ErrorFeedback::Cut{4, 3, 0}, ErrorFeedback::Cut{4, 4, 64}}) {
    ErrorFeedback residuals;
    {
      auto lease = take(residuals, {0, "a"});
      fill(*lease, 1.0f);
      lease->commit();
    }
    EXPECT_EQ(take(residuals, {0, "a"}, other, kMemory)->before(), nullptr);
  }
}

// In the order in which they began.
TEST(ErrorFeedback, BelongToOneWorkAtATime) {
  ErrorFeedback residuals;
  std::optional<ErrorFeedback::Lease> first(residuals.lease({0, "a"})), second(residuals.lease({0, "a"}));
  ErrorFeedback::Lease third = residuals.lease({0, "a"});
  EXPECT_FALSE(third.begin(kFour, kMemory));
  EXPECT_FALSE(second->begin(kFour, kMemory));
  EXPECT_TRUE(first->begin(kFour, kMemory));
  EXPECT_TRUE(take(residuals, {0, "b"}));
  first.reset();
  EXPECT_FALSE(third.begin(kFour, kMemory));
  second.reset();
  EXPECT_TRUE(third.begin(kFour, kMemory));
}

TEST(ErrorFeedback, WithoutMemoryTheyStayAsTheyWere) {
  ErrorFeedback residuals;
  {
    auto lease = take(residuals, {0, "a"});
    fill(*lease, 1.0f);
    lease->commit();
  }
  const Memory none([](std::size_t) -> HostBuffer { throw std::bad_alloc(); });
  EXPECT_THROW((void)take(residuals, {0, "a"}, kFour, none), WorkFailure);
  EXPECT_THROW((void)take(residuals, {0, "a"}, {8, 8, 0}, none), WorkFailure);
  EXPECT_EQ(take(residuals, {0, "a"})->before()[0], 1.0f);
}

TEST(ErrorFeedback, AreForgottenWhereTheyAreMany) {
  ErrorFeedback residuals;
  auto kept = take(residuals, {0, "kept"});
  for (std::size_t i = 0; i <= 2 * ErrorFeedback::kMost; ++i) {
    auto lease = take(residuals, {0, fmt::format("{}", i)}, kFour, kMemory);
    fill(*lease, 1.0f);
    lease->commit();
  }
  EXPECT_EQ(residuals.size(), ErrorFeedback::kMost);
  EXPECT_FALSE(take(residuals, {0, "kept"})) << "what is in use";
  EXPECT_EQ(take(residuals, {0, "1"})->before(), nullptr);
  EXPECT_NE(take(residuals, {0, fmt::format("{}", 2 * ErrorFeedback::kMost)}, kFour, kMemory)->before(),
            nullptr);
}

}  // namespace
}  // namespace rueda
