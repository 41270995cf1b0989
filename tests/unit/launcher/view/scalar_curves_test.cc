// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/scalar_curves.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const ScalarCurves::Time kCurvesBegin{1h};

TEST(ScalarCurves, TellsEachPointOnce) {
  ScalarCurves curves;
  curves.add(0, {"loss", {{1, 0.5}, {2, 0.25}}}, kCurvesBegin);
  EXPECT_EQ(curves.take_new(kCurvesBegin), (json{{"loss", {{1, 0.5}, {2, 0.25}}}}));
  EXPECT_TRUE(curves.take_new(kCurvesBegin).empty());
  curves.add(0, {"loss", {{3, 0.125}}}, kCurvesBegin);
  EXPECT_EQ(curves.take_new(kCurvesBegin), (json{{"loss", json::array({{3, 0.125}})}}));
  EXPECT_EQ(curves.all()["loss"].size(), 3);
}

TEST(ScalarCurves, Rank0ComesBeforeOthersWhateverTheOrder) {
  ScalarCurves curves;
  curves.add(3, {"loss", {{1, 9}}}, kCurvesBegin);
  EXPECT_TRUE(curves.take_new(kCurvesBegin).empty()) << "rank 0 may log it, too";
  curves.add(0, {"loss", {{1, 0.5}}}, kCurvesBegin);
  curves.add(3, {"loss", {{2, 9}}}, kCurvesBegin);
  EXPECT_EQ(curves.take_new(kCurvesBegin), (json{{"loss", json::array({{1, 0.5}})}}));
}

TEST(ScalarCurves, ATagOfAnotherRankCarriesIt) {
  ScalarCurves curves;
  curves.add(3, {"loss", {{1, 9}}}, kCurvesBegin);
  EXPECT_EQ(curves.take_new(kCurvesBegin + 5s), (json{{"loss (rank 3)", json::array({{1, 9.0}})}}));
}

TEST(ScalarCurves, ATagThatNamesARankIsAnother) {
  ScalarCurves curves;
  curves.add(0, {"loss (rank 3)", {{1, 5}}}, kCurvesBegin);
  curves.add(3, {"loss", {{1, 9}}}, kCurvesBegin);
  curves.add(0, {"loss (rank 3) of all", {{1, 4}}}, kCurvesBegin);
  EXPECT_EQ(curves.take_new(kCurvesBegin + 5s), (json{{"loss (rank 3)", json::array({{1, 9.0}})},
                                                      {"loss (rank 3) (rank 0)", json::array({{1, 5.0}})},
                                                      {"loss (rank 3) of all", json::array({{1, 4.0}})}}));
}

TEST(ScalarCurves, GoesOnWithAnotherRankWhenItsOwnHasEnded) {
  ScalarCurves curves;
  curves.add(1, {"loss", {{1, 9}}}, kCurvesBegin);
  curves.note_end(1);
  curves.add(2, {"loss", {{2, 8}}}, kCurvesBegin);
  curves.take_new(kCurvesBegin + 5s);
  EXPECT_EQ(curves.all()["loss (rank 2)"].size(), 2);
}

TEST(ScalarCurves, IsTheLowestRanksWhenAllEnd) {
  ScalarCurves curves;
  curves.add(0, {"loss", {{1, 9}, {2, 8}}}, kCurvesBegin);
  curves.note_end(0);
  curves.add(3, {"loss", {{1, 7}, {2, 6}}}, kCurvesBegin);
  curves.take_new(kCurvesBegin);
  EXPECT_EQ(curves.all(), (json{{"loss", json::array({{1, 9.0}, {2, 8.0}})}}));
}

TEST(ScalarCurves, ALongCurveKeepsItsLengthWithinBounds) {
  ScalarCurves curves;
  for (std::uint64_t step = 0; step < 100'000; ++step)
    curves.add(0, {"loss", {{step, static_cast<double>(step)}}}, kCurvesBegin);
  curves.take_new(kCurvesBegin);
  const json all = curves.all()["loss"];
  EXPECT_LE(all.size(), 2048);
  EXPECT_GE(all.size(), 1000);
  EXPECT_EQ(all.front()[0], 0);
  EXPECT_GT(all.back()[0].get<int>(), 99'000);
}

}  // namespace
}  // namespace rueda
