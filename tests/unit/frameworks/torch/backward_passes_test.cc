// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/backward_passes.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

TEST(BackwardPasses, ArePassesOneAfterAnother) {
  BackwardPasses passes;
  EXPECT_TRUE(passes.note(1));
  EXPECT_FALSE(passes.note(1));
  EXPECT_TRUE(passes.running());
  passes.end(1, false);
  EXPECT_FALSE(passes.running());
  EXPECT_EQ(passes.ended(), 1);
  passes.note(2);
  passes.end(2, false);
  EXPECT_EQ(passes.ended(), 2);
  EXPECT_FALSE(passes.unheard());
}

TEST(BackwardPasses, KnowsOthersBesideOne) {
  BackwardPasses passes;
  passes.note(1);
  EXPECT_FALSE(passes.running_beside(1));
  EXPECT_TRUE(passes.running_beside(2));
  passes.note(2);
  EXPECT_TRUE(passes.running_beside(1));
}

TEST(BackwardPasses, OneInsideAnotherIsPartOfIt) {
  BackwardPasses passes;
  passes.note(1);
  passes.note(2);
  passes.end(2, true);
  EXPECT_EQ(passes.ended(), 0);
  EXPECT_FALSE(passes.unheard());
  passes.end(1, false);
  EXPECT_EQ(passes.ended(), 1);
}

TEST(BackwardPasses, OneOfWhichOnlyTheInsideIsHeardIsUnheardUntilItIsHeardToo) {
  BackwardPasses passes;
  passes.note(2);
  passes.end(2, true);
  EXPECT_TRUE(passes.unheard());
  passes.note(1);
  passes.end(1, false);
  EXPECT_FALSE(passes.unheard());
  EXPECT_EQ(passes.ended(), 1);
}

TEST(BackwardPasses, OneOfAStepThatIsOverDoesNotCount) {
  BackwardPasses passes;
  passes.note(1);
  passes.reset();
  passes.end(1, false);
  EXPECT_EQ(passes.ended(), 0);
  EXPECT_FALSE(passes.running());
}

}  // namespace
}  // namespace rueda
