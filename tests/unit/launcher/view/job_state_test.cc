// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/job_state.h"

#include <gtest/gtest.h>

#include <string>

namespace rueda {
namespace {

TEST(JobState, NumbersAreShort) {
  Analysis analysis{.lateness = {}, .what_ifs = {{.rank = 0, .faster_percent = 67.1}, {1, 24.2}}};
  for (const double late_ms : {0.0069, 0.1234, 8.2031})
    analysis.lateness.ranks.push_back({.late_ms = late_ms, .share = late_ms / 10});
  const nlohmann::json json = as_json(analysis);
  EXPECT_EQ(json["what_if"].dump(), R"([{"faster_percent":67.1,"rank":0},{"faster_percent":24.2,"rank":1}])");
  for (const nlohmann::json& rank : json["ranks"])
    for (const char* name : {"late_ms", "share"}) EXPECT_LE(rank[name].dump().size(), 5) << rank;
}

}  // namespace
}  // namespace rueda
