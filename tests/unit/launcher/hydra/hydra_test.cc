// SPDX-License-Identifier: Apache-2.0
// The command by which Hydra starts agents.
#include "launcher/hydra/hydra.h"

#include <gmock/gmock.h>

namespace rueda {
namespace {

using ::testing::ElementsAre;

TEST(Hydra, OneAgentOnEachHost) {
  EXPECT_THAT(mpiexec_command("/m/mpiexec", {"a", "b"}, "eth1", {"-v"}, {"ruedarun", "--agent"}),
              ElementsAre("/m/mpiexec", "-disable-auto-cleanup", "-rmk", "user", "-ppn", "1", "-np", "2",
                          "-iface", "eth1", "-hosts", "a,b", "-v", "ruedarun", "--agent"));
}

}  // namespace
}  // namespace rueda
