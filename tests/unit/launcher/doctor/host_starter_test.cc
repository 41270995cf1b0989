// SPDX-License-Identifier: Apache-2.0
// Each way in which a start fails has its own way out.
#include "launcher/doctor/host_starter.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

std::string remedy(int status, const std::string& said = "") {
  return remedy_of({"far", "ssh -x", "/opt/ruedarun", status, said});
}

TEST(StartRemedy, DependsOnTheStatus) {
  EXPECT_NE(remedy(255).find("`ssh -x far true`"), std::string::npos);
  EXPECT_NE(remedy(255).find("`ssh-copy-id far`"), std::string::npos);
  EXPECT_EQ(remedy(2), "Install the same Rueda there, at /opt/ruedarun.");
  for (const int status : {126, 127})
    EXPECT_EQ(remedy(status), "Install Rueda there, so that /opt/ruedarun is a program.");
  for (const int status : {0, 1, 137})
    EXPECT_EQ(remedy(status), "Look at what `ssh -x far /opt/ruedarun --version` says.");
}

TEST(StartRemedy, OfOneThatFindsNoRuedarunIsTheNetwork) {
  EXPECT_NE(remedy(1, "the agent on far finds no ruedarun of this job").find("TCP ports"), std::string::npos);
}

TEST(StartRemedy, SentencesBeginWithACapital) {
  EXPECT_EQ(capitalized("see that"), "See that");
  EXPECT_EQ(capitalized(""), "");
}

}  // namespace
}  // namespace rueda
