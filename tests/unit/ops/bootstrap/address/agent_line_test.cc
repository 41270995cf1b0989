// SPDX-License-Identifier: Apache-2.0
// A rank's line to its agent, with the agent's end in the test.
#include "ops/bootstrap/address/agent_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "core/observe/training/training_record.h"

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
  EXPECT_EQ(ends.hear(), "training");
  EXPECT_EQ(ends.hear(), "requests");
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

// The record is of the process, not of a generation: the agent needs it once.
TEST(AgentLine, TheAgentGetsThePageOfTheTrainingOnce) {
  const Ends ends;
  AgentLine line;
  line.tell_joined();
  line.tell_joined();
  EXPECT_EQ(ends.hear(), "join");
  std::array<char, 64> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec bytes{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t length = ::recvmsg(ends.agent.number(), &message, MSG_CMSG_CLOEXEC);
  ASSERT_EQ(std::string_view(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))),
            "training");
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  ASSERT_TRUE(header != nullptr && header->cmsg_type == SCM_RIGHTS);
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof number);
  const Descriptor page(number);
  TrainingRecord::of_process().log("of the agent's test", 0.5, 0);
  const TrainingReading own = *read_training_page(TrainingRecord::of_process().page());
  void* memory = ::mmap(nullptr, sizeof(TrainingPage), PROT_READ, MAP_SHARED, page.number(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto reading = read_training_page({static_cast<const std::byte*>(memory), sizeof(TrainingPage)});
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->curves.size(), own.curves.size());
  ::munmap(memory, sizeof(TrainingPage));
  EXPECT_EQ(ends.hear(), "requests");
  EXPECT_EQ(ends.hear(), "join");
  line.tell_mpi();
  EXPECT_EQ(ends.hear(), "mpi") << "the page does not come again";
}

TEST(AgentLine, TellsOfRecordersAndStalls) {
  const Ends ends;
  AgentLine line;
  line.show_recorder(-1, 0, "- nothing");
  line.show_recorder(STDIN_FILENO, 4096, "0-3 group 1");
  line.tell_stall();
  EXPECT_EQ(ends.hear(), "recorder 4096 0-3 group 1");
  EXPECT_EQ(ends.hear(), "stalled");
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
