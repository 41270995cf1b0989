// SPDX-License-Identifier: Apache-2.0
// The rank that all others get the state of.
#include "frameworks/torch/elastic/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/words_of.h"

namespace rueda::elastic {
namespace {

using enum Condition;

struct SourceCase {
  std::vector<Report> reports;
  Choice choice;
};

class SourceOfState : public testing::TestWithParam<SourceCase> {};

TEST_P(SourceOfState, IsTheLowestRankWithTheMostCommits) {
  const Choice choice = choose(GetParam().reports);
  EXPECT_EQ(choice.source, GetParam().choice.source);
  EXPECT_EQ(choice.needed, GetParam().choice.needed);
}

INSTANTIATE_TEST_SUITE_P(
    All, SourceOfState,
    testing::Values(SourceCase{{{3, whole, true}, {3, whole, true}}, {0, false}},
                    SourceCase{{{3, whole, true}, {4, whole, true}, {4, whole, true}}, {1, true}},
                    SourceCase{{{3, whole, true}, {3, whole, false}}, {0, true}},
                    SourceCase{{{3, ahead, false}, {3, whole, true}}, {1, true}},
                    SourceCase{{{4, ahead, false}, {3, whole, true}}, {1, true}},
                    SourceCase{{{3, ahead, false}, {4, ahead, false}}, {1, true}},
                    SourceCase{{{3, ahead, true}, {3, ahead, true}}, {0, true}},
                    SourceCase{{{9, fresh, true}, {3, ahead, false}}, {1, true}},
                    SourceCase{{{0, fresh, false}, {9, torn, true}, {1, whole, true}}, {2, true}},
                    SourceCase{{{0, fresh, false}, {0, fresh, false}}, {0, true}}));

TEST(SourceOfState, IsNobodyWhereTheStateIsLost) {
  EXPECT_THAT(words_of([] {
                choose({{9, torn, false}, {0, fresh, false}});
              }),
              testing::HasSubstr("from a checkpoint"));
}

}  // namespace
}  // namespace rueda::elastic
