// SPDX-License-Identifier: Apache-2.0
// Fields of lines of PMI-1.
#include "core/base/system/pmi_line.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

TEST(PmiLine, Fields) {
  constexpr std::string_view kLine = "cmd=get_result rc=0 msg= value=a=b";
  EXPECT_EQ(pmi_field(kLine, "cmd"), "get_result");
  EXPECT_EQ(pmi_field(kLine, "rc"), "0");
  EXPECT_EQ(pmi_field(kLine, "value"), "a=b");
  for (const char* name : {"msg", "c", "md", "get_result", "valu"})
    EXPECT_EQ(pmi_field(kLine, name), "") << name;
  EXPECT_EQ(pmi_field("", "cmd"), "");
  EXPECT_EQ(pmi_field("cmd", "cmd"), "");
}

}  // namespace
}  // namespace rueda
