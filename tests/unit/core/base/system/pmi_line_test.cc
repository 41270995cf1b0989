// SPDX-License-Identifier: Apache-2.0
// Fields of messages of PMI.
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
  constexpr std::string_view kOfPmi2 = "cmd=fullinit-response;rc=0;errmsg=a b=c;size=4;";
  EXPECT_EQ(pmi_field(kOfPmi2, "cmd", ';'), "fullinit-response");
  EXPECT_EQ(pmi_field(kOfPmi2, "errmsg", ';'), "a b=c");
  EXPECT_EQ(pmi_field(kOfPmi2, "size", ';'), "4");
  EXPECT_EQ(pmi_field("", "cmd"), "");
  EXPECT_EQ(pmi_field("cmd", "cmd"), "");
}

}  // namespace
}  // namespace rueda
