// SPDX-License-Identifier: Apache-2.0
// A rank's line to its agent, with the agent's end in the test.
#include "ops/bootstrap/address/agent_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <thread>

namespace rueda {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

struct Ends {
  Descriptor agent;
  int rank = -1;

  Ends() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    agent = Descriptor(ends[0]);
    rank = ends[1];
    struct stat about {};
    ::fstat(rank, &about);
    ::setenv("RUEDA_AGENT_LINE", fmt::format("{}:{}:{}", rank, about.st_dev, about.st_ino).c_str(), 1);
  }
  ~Ends() { ::unsetenv("RUEDA_AGENT_LINE"); }

  void say(const std::string& packet) const { ::send(agent.number(), packet.data(), packet.size(), 0); }
  std::string hear() const {
    std::array<char, 1024> packet{};
    const ssize_t count = ::recv(agent.number(), packet.data(), packet.size(), 0);
    return {packet.data(), static_cast<std::size_t>(count > 0 ? count : 0)};
  }
};

TEST(AgentLine, ValuesAreAskedForAndComeLater) {
  const Ends ends;
  AgentLine line;
  ASSERT_TRUE(line);
  line.tell_joined();
  EXPECT_EQ(ends.hear(), "join");
  EXPECT_FALSE(line.get("root", 1));
  EXPECT_EQ(ends.hear(), "get root");
  std::thread agent([&] {
    EXPECT_EQ(ends.hear(), "get root");
    ends.say("value root 00ff");
  });
  EXPECT_EQ(line.get("root", 10'000), "00ff");
  agent.join();
  ends.say("value root older");
  EXPECT_FALSE(line.get("root", 1)) << "a newer one may have been put";
  line.put("root", "x y");
  EXPECT_EQ(ends.hear(), "get root");
  EXPECT_EQ(ends.hear(), "put root x y");
}

TEST(AgentLine, LostRanksAreNamedToEachCaller) {
  const Ends ends;
  AgentLine line;
  std::size_t first = 0, second = 0;
  ends.say("lost 2 rank 2 (process 17 on node3) was killed by signal 9 (Killed)");
  ends.say("nonsense");
  EXPECT_THAT(line.lost(first), SizeIs(1));
  EXPECT_THAT(line.lost(first), IsEmpty());
  EXPECT_EQ(line.how_it_ended(2), "was killed by signal 9 (Killed)");
  EXPECT_EQ(line.how_it_ended(1), "");
  ASSERT_THAT(line.lost(second), SizeIs(1));
}

TEST(AgentLine, TheNewestGenerationIsKept) {
  const Ends ends;
  AgentLine line;
  EXPECT_EQ(line.membership().newest, std::nullopt);
  ends.say("generation 1 3.");
  ends.say("change 10");
  EXPECT_EQ(line.membership().newest, (Generation{1, RankSet(0, 3)}));
  EXPECT_TRUE(line.membership().joiners_wait);
  EXPECT_GT(line.membership().since, 1e9);
  ends.say("generation 1 8.");  // not newer
  ends.say("generation 2 11");  // cut short
  EXPECT_EQ(line.membership().newest, (Generation{1, RankSet(0, 3)}));
  ends.say("generation 2 2~2.");
  EXPECT_EQ(line.membership().newest, (Generation{2, RankSet(1, 3)}));
  EXPECT_FALSE(line.membership().joiners_wait);  // they have come in
}

TEST(AgentLine, AListenerHearsForAll) {
  Ends ends;
  AgentLine line;
  line.begin_to_listen();
  std::thread listener([&] {
    while (line.wait_for_packet()) {}
  });
  std::thread agent([&] {
    EXPECT_EQ(ends.hear(), "get root");
    ends.say("value root 00ff");
  });
  EXPECT_EQ(line.get("root", 10'000), "00ff");
  agent.join();
  ends.agent.close();
  listener.join();
}

TEST(AgentLine, WithoutAnAgentItDoesNothing) {
  AgentLine line;
  std::size_t seen = 0;
  EXPECT_FALSE(line);
  line.tell_mpi();
  line.put("a", "b");
  EXPECT_FALSE(line.get("a", 1000));
  EXPECT_THAT(line.lost(seen), IsEmpty());
  ::setenv("RUEDA_AGENT_LINE", "0:1:2", 1);  // standard input is another file
  EXPECT_FALSE(AgentLine());
  ::unsetenv("RUEDA_AGENT_LINE");
}

TEST(AgentLine, AnAgentThatHasGoneKeepsNobodyWaiting) {
  Ends ends;
  AgentLine line;
  ends.agent.close();
  EXPECT_FALSE(line.get("a", 1000));
  std::size_t seen = 0;
  EXPECT_THAT(line.lost(seen), IsEmpty());
}

TEST(AgentLine, WordsOfLostRanks) {
  LostPeer peer;
  EXPECT_TRUE(read_lost("lost 3 it ended", peer));
  EXPECT_EQ(peer.rank, 3);
  EXPECT_EQ(peer.words, "it ended");
  for (const char* wrong : {"", "lost", "lost x y", "lost -1 x", "lost 3", "value 3 x"})
    EXPECT_FALSE(read_lost(wrong, peer)) << wrong;
}

}  // namespace
}  // namespace rueda
