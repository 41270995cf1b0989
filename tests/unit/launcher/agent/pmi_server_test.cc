// SPDX-License-Identifier: Apache-2.0
// PMI-1 as MPICH speaks it, and lines that are none.
#include "launcher/agent/pmi_server.h"

#include <gmock/gmock.h>

namespace rueda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct OneHost {
  SharedValues values;
  int barriers = 0;
  PmiServer server{{.size = 4,
                    .ranks_here = 2,
                    .name = "job",
                    .process_mapping = "(vector,(0,2,2))",
                    .put = [this](std::string key, std::string value) { values[key] = value; },
                    .enter_barrier = [this] { ++barriers; }}};

  std::string ask(int rank, std::string_view line) {
    const std::vector<PmiServer::Answer> answers = server.hear(rank, line, values);
    EXPECT_LE(answers.size(), 1u);
    return answers.empty() ? "" : answers.front().line;
  }
};

TEST(PmiServer, TheStartOfMpich) {
  OneHost host;
  EXPECT_EQ(host.ask(0, "cmd=init pmi_version=1 pmi_subversion=1"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  EXPECT_EQ(host.ask(0, "cmd=get_maxes"), "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  EXPECT_THAT(host.ask(0, "cmd=get_appnum"), HasSubstr("appnum=0"));
  EXPECT_THAT(host.ask(1, "cmd=get_universe_size"), HasSubstr("size=4"));
  EXPECT_THAT(host.ask(1, "cmd=get_my_kvsname"), HasSubstr("kvsname=job"));
  EXPECT_THAT(host.ask(1, "cmd=get kvsname=job key=PMI_process_mapping"),
              HasSubstr("value=(vector,(0,2,2))"));
  EXPECT_EQ(host.ask(1, "cmd=finalize"), "cmd=finalize_ack rc=0\n");
}

TEST(PmiServer, ValuesAndBarriers) {
  OneHost host;
  EXPECT_THAT(host.ask(0, "cmd=get kvsname=job key=a"), HasSubstr("rc=-1"));
  EXPECT_THAT(host.ask(0, "cmd=put kvsname=job key=a value=b=c d"), HasSubstr("rc=0"));
  EXPECT_THAT(host.ask(1, "cmd=get kvsname=job key=a"), HasSubstr("value=b=c d\n"));
  EXPECT_THAT(host.server.hear(0, "cmd=barrier_in", host.values), IsEmpty());
  EXPECT_THAT(host.server.hear(0, "cmd=barrier_in", host.values), IsEmpty()) << "one that is there already";
  EXPECT_EQ(host.barriers, 0);
  EXPECT_THAT(host.server.hear(1, "cmd=barrier_in", host.values), IsEmpty());
  EXPECT_EQ(host.barriers, 1);
  EXPECT_EQ(host.server.leave_barrier().size(), 2u);
  host.ask(1, "cmd=barrier_in");
  host.ask(0, "cmd=barrier_in");
  EXPECT_EQ(host.barriers, 2);
}

TEST(PmiServer, ValuesMayBeAsLongAsIsTold) {
  OneHost host;
  EXPECT_THAT(host.ask(0, "cmd=put kvsname=job key=a value=" + std::string(1024, 'v')), HasSubstr("rc=0"));
  EXPECT_EQ(host.values["pmi/a"].size(), 1024u);
}

TEST(PmiServer, ARankIsInMpiBetweenInitAndFinalize) {
  OneHost host;
  EXPECT_FALSE(host.server.is_between_init_and_finalize(1));
  host.ask(1, "cmd=init pmi_version=1 pmi_subversion=1");
  EXPECT_TRUE(host.server.is_between_init_and_finalize(1));
  host.ask(1, "cmd=abort exitcode=0");
  EXPECT_TRUE(host.server.is_between_init_and_finalize(1));
  host.ask(1, "cmd=finalize");
  EXPECT_FALSE(host.server.is_between_init_and_finalize(1));
}

TEST(PmiServer, TheStatusOfAnAbortIsKept) {
  OneHost host;
  EXPECT_EQ(host.server.aborted(0), std::nullopt);
  host.ask(0, "cmd=abort exitcode=7 message=words");
  EXPECT_EQ(host.server.aborted(0), 7);
  EXPECT_EQ(host.server.aborted(1), std::nullopt);
  for (const char* code : {"0", "256", "x", ""}) {
    host.ask(1, std::string("cmd=abort exitcode=") + code);
    EXPECT_EQ(host.server.aborted(1), 1) << code;
  }
}

TEST(PmiServer, RanksThatHaveFailedAreNamed) {
  OneHost host;
  host.server.note_dead(2);
  host.server.note_dead(5);
  EXPECT_THAT(host.ask(0, "cmd=get kvsname=job key=PMI_dead_processes"), HasSubstr("value=2,5\n"));
}

TEST(PmiServer, NonsenseGetsAnError) {
  OneHost host;
  EXPECT_THAT(host.ask(0, "hello"), HasSubstr("rc=-1"));
  EXPECT_THAT(host.ask(0, ""), HasSubstr("rc=-1"));
  EXPECT_THAT(host.ask(0, "cmd=put kvsname=job key=a"), HasSubstr("rc=-1"));
  EXPECT_THAT(host.ask(0, "cmd=put kvsname=job key=" + std::string(65, 'k') + " value=1"),
              HasSubstr("rc=-1"));
  EXPECT_THAT(host.ask(0, "cmd=put kvsname=job key=a value=" + std::string(2000, 'v')), HasSubstr("rc=-1"));
  EXPECT_THAT(host.values, IsEmpty());
  for (const char* line : {"mcmd=spawn", "nprocs=1", "execname=x"}) EXPECT_EQ(host.ask(0, line), "");
  EXPECT_THAT(host.ask(1, "cmd=get_appnum"), HasSubstr("appnum=0")) << "another rank";
  EXPECT_THAT(host.ask(0, "endcmd"), HasSubstr("cmd=spawn_result rc=-1"));
}

}  // namespace
}  // namespace rueda
