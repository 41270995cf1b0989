// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/pass_counter.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

TEST(PassCounter, ArePassesOneAfterAnother) {
  PassCounter passes;
  const auto first = passes.note(1);
  EXPECT_TRUE(first);
  EXPECT_FALSE(passes.note(1));
  EXPECT_TRUE(passes.running());
  passes.end(1, false);
  EXPECT_FALSE(passes.running());
  EXPECT_EQ(passes.ended(), 1);
  const auto second = passes.note(2);
  passes.end(2, false);
  EXPECT_EQ(passes.ended(), 2);
  EXPECT_FALSE(passes.unheard());
}

TEST(PassCounter, KnowsOthersBesideOne) {
  PassCounter passes;
  const auto first = passes.note(1);
  EXPECT_FALSE(passes.running_beside(1));
  EXPECT_TRUE(passes.running_beside(2));
  const auto second = passes.note(2);
  EXPECT_TRUE(passes.running_beside(1));
}

TEST(PassCounter, OneThatIsGoneBeforeItsEndHasFailed) {
  PassCounter passes;
  passes.note(1);
  EXPECT_FALSE(passes.running());
  EXPECT_TRUE(passes.failed());
  const auto second = passes.note(2);
  EXPECT_FALSE(passes.running_beside(2));
  passes.end(2, false);
  EXPECT_TRUE(passes.failed());
  passes.reset();
  EXPECT_FALSE(passes.failed());
}

TEST(PassCounter, OneInsideAnotherIsPartOfIt) {
  PassCounter passes;
  const auto outside = passes.note(1);
  const auto inside = passes.note(2);
  passes.end(2, true);
  EXPECT_EQ(passes.ended(), 0);
  EXPECT_FALSE(passes.unheard());
  passes.end(1, false);
  EXPECT_EQ(passes.ended(), 1);
}

TEST(PassCounter, OneOfWhichOnlyTheInsideIsHeardIsUnheardUntilItIsHeardToo) {
  PassCounter passes;
  const auto inside = passes.note(2);
  passes.end(2, true);
  EXPECT_TRUE(passes.unheard());
  const auto outside = passes.note(1);
  passes.end(1, false);
  EXPECT_FALSE(passes.unheard());
  EXPECT_EQ(passes.ended(), 1);
}

TEST(PassCounter, OneOfAStepThatIsOverDoesNotCount) {
  PassCounter passes;
  const auto first = passes.note(1);
  passes.reset();
  passes.end(1, false);
  EXPECT_EQ(passes.ended(), 0);
  EXPECT_FALSE(passes.running());
}

}  // namespace
}  // namespace rueda
