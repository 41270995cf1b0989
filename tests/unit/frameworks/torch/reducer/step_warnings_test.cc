// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer/step_warnings.h"

#include <gtest/gtest.h>

#include <functional>

namespace rueda {
namespace {

std::string told(const std::function<void()>& action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

TEST(StepWarnings, EachMissingParameterIsToldOnce) {
  StepWarnings warnings({"a", "b", "c"});
  const std::string first = told([&] { warnings.missing(2, {0, 2}); });
  EXPECT_NE(first.find("rank 2: no gradient here, but on other ranks, for 'a', 'c'; it counts as zero"),
            first.npos)
      << first;
  const std::string second = told([&] { warnings.missing(2, {0, 1, 2}); });
  EXPECT_NE(second.find("for 'b';"), second.npos) << second;
  EXPECT_EQ(told([&] { warnings.missing(2, {0, 1, 2}); }), "");
  EXPECT_EQ(told([&] { warnings.missing(2, {}); }), "");
}

TEST(StepWarnings, LongListsAreCut) {
  std::vector<std::string> names;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < 11; ++i) {
    names.push_back("p" + std::to_string(i));
    all.push_back(i);
  }
  StepWarnings warnings(names);
  const std::string words = told([&] { warnings.missing(0, all); });
  EXPECT_NE(words.find("'p7' and 3 more"), words.npos) << words;
}

TEST(StepWarnings, OfStepsAreToldOnce) {
  StepWarnings warnings({"a"});
  const std::string early = told([&] { warnings.early(1, 2, 4); });
  EXPECT_NE(early.find("rank 1: step() after 2 of 4 backward passes"), early.npos) << early;
  EXPECT_EQ(told([&] { warnings.early(1, 2, 4); }), "");
  const std::string nothing = told([&] { warnings.nothing(1); });
  EXPECT_NE(nothing.find("rank 1: step() with no gradient of any parameter on any rank"), nothing.npos)
      << nothing;
  EXPECT_EQ(told([&] { warnings.nothing(1); }), "");
}

}  // namespace
}  // namespace rueda
