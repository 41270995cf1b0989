// SPDX-License-Identifier: Apache-2.0
// Ranks that ask for a value too early hear of it later, once.
#include "launcher/agent/host_values.h"

#include <gmock/gmock.h>

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pointee;

TEST(HostValues, ARankThatHasAskedTooEarlyIsNamedOnce) {
  HostValues values;
  EXPECT_EQ(values.get(2, "key"), nullptr);
  EXPECT_EQ(values.get(0, "key"), nullptr);
  EXPECT_EQ(values.get(2, "key"), nullptr) << "it asks again";
  EXPECT_EQ(values.get(1, "other"), nullptr);
  EXPECT_THAT(values.put("key", "value"), ElementsAre(2, 0));
  EXPECT_THAT(values.get(1, "key"), Pointee(std::string("value")));
  EXPECT_THAT(values.put("key", "another"), IsEmpty());
  EXPECT_THAT(values.put("other", "value"), ElementsAre(1));
}

TEST(HostValues, AnEmptyValueTakesTheKeyAwayAndAnswersNobody) {
  HostValues values;
  values.put("key", "value");
  EXPECT_THAT(values.put("key", ""), IsEmpty());
  EXPECT_EQ(values.get(0, "key"), nullptr);
  EXPECT_THAT(values.put("key", ""), IsEmpty());
  EXPECT_THAT(values.put("key", "value"), ElementsAre(0));
  EXPECT_EQ(values.all().size(), 1u);
}

}  // namespace
}  // namespace rueda
