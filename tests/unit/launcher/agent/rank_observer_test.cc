// SPDX-License-Identifier: Apache-2.0
// A rank's history reaches its agent, and no file of a rank does it harm.
#include "launcher/agent/rank_observer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/observe/training/route_counter.h"
#include "core/observe/training/training_record.h"
#include "launcher/agent/rank_channel.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Time = RankObserver::Time;

const Time kLookBegin{1h};

Descriptor copy_of(int descriptor) { return Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

Descriptor file_in_memory(off_t size, int seals) {
  Descriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.number(), size), 0);
  EXPECT_EQ(::fcntl(file.number(), F_ADD_SEALS, seals), 0);
  return file;
}

std::vector<agents::Observed> all_of(RankObserver& observer) {
  std::vector<agents::Observed> all;
  while (observer.has_more()) all.push_back(observer.take());
  return all;
}

TEST(RankObserver, AFailureOfLongAgoIsNotRecent) {
  TrainingRecord record;
  RankObserver observer(3);
  EXPECT_EQ(observer.recent_failure(RankObserver::Time::clock::now()).words, "") << "there is no page";
  observer.use(*SealedMemory::map(copy_of(record.descriptor()), sizeof(TrainingPage)));
  EXPECT_EQ(observer.recent_failure(RankObserver::Time::clock::now()).words, "");
  record.note_failure("rank 1 shut down without it");
  const auto now = RankObserver::Time::clock::now();
  EXPECT_EQ(observer.recent_failure(now + 1s).words, "rank 1 shut down without it");
  EXPECT_EQ(observer.recent_failure(now + 40s).words, "") << "the rank has gone on since";
  EXPECT_EQ(observer.recent_failure(now + 1s).lost_at_ns, 0);
  record.note_loss();
  EXPECT_NE(observer.recent_failure(now + 1s).lost_at_ns, 0);
  EXPECT_EQ(observer.recent_failure(now + 1s).words, "rank 1 shut down without it");
  EXPECT_EQ(observer.recent_failure(now + 40s).lost_at_ns, 0);
}

TEST(RankObserver, TellsHistoryOnceInBoundedMessages) {
  TrainingRecord record;
  for (int step = 0; step < 500; ++step) {
    record.begin_phase(Phase::backward);
    record.begin_phase(Phase::wait);
    record.log("loss", step, -1);
    record.end_step();
  }
  RankObserver observer(3);
  observer.use(*SealedMemory::map(copy_of(record.descriptor()), sizeof(TrainingPage)));
  observer.look(0, kLookBegin);
  std::size_t spans = 0, points = 0;
  for (const agents::Observed& news : all_of(observer)) {
    EXPECT_EQ(news.rank, 3);
    EXPECT_EQ(news.step, 500);
    EXPECT_LE(news.spans.size(), agents::kMostSpans);
    spans += news.spans.size();
    for (const auto& curve : news.curves) {
      EXPECT_EQ(curve.tag, "loss");
      points += curve.points.size();
    }
  }
  EXPECT_GE(spans, 1500);
  EXPECT_EQ(points, 500);
  record.begin_phase(Phase::data);
  record.log("loss", 1, -1);
  observer.look(0, kLookBegin + 1ms);
  const std::vector<agents::Observed> news = all_of(observer);
  ASSERT_EQ(news.size(), 1);
  EXPECT_EQ(news[0].spans.size(), 1);
  EXPECT_EQ(news[0].phase, Phase::data);
  EXPECT_EQ(news[0].curves.at(0).points.size(), 1);
}

TEST(RankObserver, TellsOfStallsAtOnce) {
  TrainingRecord record;
  RankObserver observer(0);
  observer.use(*SealedMemory::map(copy_of(record.descriptor()), sizeof(TrainingPage)));
  observer.look(0, kLookBegin);
  EXPECT_EQ(all_of(observer).back().stall, "");
  record.note_stall("'x' is not complete after 3.3 s.\n  waiting: ranks 0-1\n  not submitted by: rank 2");
  observer.look(0, kLookBegin + 1ms);
  ASSERT_TRUE(observer.has_more());
  EXPECT_EQ(observer.take().stall,
            "'x' is not complete after 3.3 s; waiting: ranks 0-1; not submitted by: rank 2");
  record.note_stall("");
  observer.look(0, kLookBegin + 2ms);
  ASSERT_TRUE(observer.has_more());
  EXPECT_EQ(observer.take().stall, "");
}

TEST(RankObserver, TellsRoutesWithNewPlansOnceASecond) {
  TrainingRecord record;
  RouteCounter counter;
  counter.begin(record, {.fusion_threshold = 64});
  const auto count = [&](std::uint64_t bytes) { counter.count({.backend = "tcp", .bytes = bytes}); };
  for (int size = 0; size < 60; ++size) count(std::uint64_t{1} << size);
  RankObserver observer(0);
  observer.use(*SealedMemory::map(copy_of(record.descriptor()), sizeof(TrainingPage)));
  const auto routes = [&](Time now, pid_t process) {
    observer.look(process, now);
    std::vector<CountedRoute> all;
    for (const agents::Observed& message : all_of(observer)) {
      EXPECT_LE(message.routes.size(), agents::kMostRoutes);
      EXPECT_EQ(message.settings.fusion_threshold, 64U);
      all.insert(all.end(), message.routes.begin(), message.routes.end());
    }
    return all;
  };
  EXPECT_EQ(routes(kLookBegin, ::getpid()).size(), 60U);
  count(1);
  EXPECT_EQ(routes(kLookBegin + 200ms, ::getpid()).size(), 0U);
  const std::vector<CountedRoute> later = routes(kLookBegin + 1100ms, ::getpid());
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].count.plans, 2U);
  count(2);
  EXPECT_EQ(routes(kLookBegin + 1200ms, 0).size(), 1U) << "it has ended: the last news";
}

TEST(RankObserver, SaysNothingWithoutNewsButNowAndThen) {
  RankObserver observer(0);
  observer.look(::getpid(), kLookBegin);
  const std::vector<agents::Observed> first = all_of(observer);
  ASSERT_EQ(first.size(), 1);
  EXPECT_FALSE(first[0].has_training);
  EXPECT_GT(first[0].resident_bytes, 1 << 20);
  observer.look(::getpid(), kLookBegin + 200ms);
  EXPECT_FALSE(observer.has_more());
  observer.look(::getpid(), kLookBegin + 1100ms);
  EXPECT_TRUE(observer.has_more()) << "its memory has changed";
}

TEST(RankObserver, APageOfAnythingIsRead) {
  const Descriptor file = file_in_memory(sizeof(TrainingPage), F_SEAL_SHRINK);
  std::vector<std::uint64_t> words(sizeof(TrainingPage) / 8, 0x0123456789abcdef);
  words[0] = TrainingPage::kMagic;
  words[1] = TrainingPage::kVersion;
  ASSERT_EQ(::pwrite(file.number(), words.data(), sizeof(TrainingPage), 0), sizeof(TrainingPage));
  RankObserver observer(0);
  observer.use(*SealedMemory::map(file, sizeof(TrainingPage)));
  observer.look(0, kLookBegin);
  EXPECT_TRUE(observer.has_more());
  for (const agents::Observed& news : all_of(observer)) EXPECT_LE(news.curves.size(), 64);
}

// A packet as a rank sends it.
void send_with(int socket, const std::string& text, const std::vector<int>& files) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> about{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = about.data();
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), files.data(), files.size() * sizeof(int));
  }
  ASSERT_GE(::sendmsg(socket, &message, 0), 0);
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int number = 0; number < 1024; ++number) count += ::fcntl(number, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST(RankChannel, TakesThePageOfARankAndKeepsNoOtherFile) {
  using Kind = RankChannel::Request::Kind;
  RankChannel channel;
  const TrainingRecord record;
  send_with(channel.ranks_end(), "join", {});
  send_with(channel.ranks_end(), "training", {record.descriptor()});
  std::vector<RankChannel::Request> requests = channel.hear();
  ASSERT_EQ(requests.size(), 1);
  EXPECT_EQ(requests[0].kind, Kind::training);
  EXPECT_TRUE(SealedMemory::map(requests[0].file, sizeof(TrainingPage)));
  EXPECT_EQ(channel.member(), ::getpid());
  requests.clear();
  const std::size_t before = open_descriptors();
  send_with(channel.ranks_end(), "training", {});
  send_with(channel.ranks_end(), "put a b", {0, 1, 2});
  send_with(channel.ranks_end(), "training", {0, 1, 2, 0, 1, 2, 0, 1});
  requests = channel.hear();
  EXPECT_LE(requests.size(), 2) << "one without a file is nothing";
  requests.clear();
  send_with(channel.ranks_end(), "state", {});
  channel.hear();
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RankChannel, KnowsTheProcessesThatRunPython) {
  RankChannel channel;
  EXPECT_EQ(channel.main_process(), 0);
  const Descriptor file(::memfd_create("stacks", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string signal = "stacks " + std::to_string(SIGRTMIN + 3);
  const std::string legal = signal + " " + std::to_string(file.number());
  const std::size_t before = open_descriptors();
  send_with(channel.ranks_end(), legal, {});
  send_with(channel.ranks_end(), legal, {0});
  for (const std::string& text : {signal, signal + " ", signal + " x", std::string("stacks 9 3"),
                                  std::string("stacks x 3"), std::string("stacks ")})
    send_with(channel.ranks_end(), text, {file.number()});
  EXPECT_TRUE(channel.hear().empty());
  EXPECT_EQ(channel.main_process(), 0);
  EXPECT_EQ(open_descriptors(), before);
  for (int i = 0; i < 20; ++i) send_with(channel.ranks_end(), legal, {file.number()});
  channel.hear();
  EXPECT_EQ(channel.main_process(), ::getpid());
  EXPECT_TRUE(channel.python_of(::getpid()));
  EXPECT_FALSE(channel.python_of(::getppid()));
  EXPECT_EQ(open_descriptors(), before + 2) << "the last file, and the handle of the process";
  send_with(channel.ranks_end(), "join", {});
  channel.hear();
  EXPECT_EQ(channel.main_process(), channel.member());
}

}  // namespace
}  // namespace rueda
