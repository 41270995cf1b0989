// SPDX-License-Identifier: Apache-2.0
// A program of the user's that prints hosts: its lines, its failures, and how often it runs.
#include "launcher/start/host_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "launcher/cli/usage_error.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string line_error_of(std::string_view text) {
  try {
    hosts_from_script(text, 1);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostDiscovery, LinesNameHostsAndTheirSlots) {
  EXPECT_THAT(hosts_from_script("a:2\n\n  b \r\nc:1\na:3\n", 4),
              ElementsAre(HostSlots{"a", 3}, HostSlots{"b", 4}, HostSlots{"c", 1}));
  EXPECT_THAT(hosts_from_script("# of today\na:2  # with a card\n", 4), ElementsAre(HostSlots{"a", 2}));
  EXPECT_THAT(hosts_from_script("", 4), IsEmpty());
}

TEST(HostDiscovery, ABadLineIsNamed) {
  EXPECT_THAT(line_error_of("a:2\nb:x\n"), HasSubstr("line 2 of the host discovery script: 'x' ranks"));
  EXPECT_THAT(line_error_of("a:0"), HasSubstr("from 1 to"));
  EXPECT_THAT(line_error_of("-oProxyCommand=x"), HasSubstr("begins with '-'"));
  EXPECT_THAT(line_error_of("a:2,b:2"), HasSubstr("line 1"));
  EXPECT_THAT(line_error_of("a slots=2"), HasSubstr("HOST:RANKS"));
  EXPECT_THAT(line_error_of(":3"), HasSubstr("names no host"));
  EXPECT_THAT(line_error_of("\x7f"
                            "ELF\x02"),
              HasSubstr(R"("\x7fELF\x02" names no host)"));
  EXPECT_THAT(line_error_of(std::string(100'000, 'x')).size(), testing::Lt(500U));
}

HostDiscovery discovery_of(const std::string& command) {
  ElasticOptions options;
  options.discovery_script = command;
  return HostDiscovery(options);
}

// As the supervisor does it, until there is an answer.
HostDiscovery::Answer answer_of(HostDiscovery& discovery) {
  const auto until = HostDiscovery::Clock::now() + 30s;
  while (HostDiscovery::Clock::now() < until) {
    discovery.act(HostDiscovery::Clock::now());
    int status = 0;
    if (const pid_t process = ::waitpid(-1, &status, WNOHANG); process > 0)
      discovery.note_end(process, status);
    if (std::optional<HostDiscovery::Answer> answer = discovery.take_answer()) return *answer;
    pollfd wait{discovery.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, 5);
  }
  return {{}, "no answer"};
}

TEST(HostDiscovery, ACommandWithWordsRunsByAShell) {
  HostDiscovery discovery = discovery_of("for host in a b; do echo $host:2; done");
  EXPECT_THAT(answer_of(discovery).hosts, ElementsAre(HostSlots{"a", 2}, HostSlots{"b", 2}));
}

TEST(HostDiscovery, ItRunsAgainAfterTheInterval) {
  HostDiscovery discovery = discovery_of("echo a");
  answer_of(discovery);
  const auto before = HostDiscovery::Clock::now();
  EXPECT_GT(discovery.next_time(), before);
  EXPECT_LE(discovery.next_time(), before + 1s);
  EXPECT_FALSE(discovery.take_answer());
}

TEST(HostDiscovery, AFailureIsToldWithItsStatus) {
  HostDiscovery discovery = discovery_of("echo a; exit 3");
  const HostDiscovery::Answer answer = answer_of(discovery);
  EXPECT_THAT(answer.failure, HasSubstr("ended with status 3"));
  EXPECT_THAT(answer.hosts, IsEmpty());
}

TEST(HostDiscovery, ALineThatIsNoneIsAFailure) {
  HostDiscovery discovery = discovery_of("echo a:b:c");
  EXPECT_THAT(answer_of(discovery).failure, HasSubstr("line 1"));
}

TEST(HostDiscovery, AnEndlessTextIsAFailure) {
  HostDiscovery discovery = discovery_of("head -c 3000000 /dev/zero | tr '\\0' a");
  EXPECT_THAT(answer_of(discovery).failure, HasSubstr("more than"));
}

TEST(HostDiscovery, AProcessThatHoldsTheOutputOpenIsNotWaitedFor) {
  HostDiscovery discovery = discovery_of("sleep 1000 & echo a");
  EXPECT_THAT(answer_of(discovery).hosts, ElementsAre(HostSlots{"a", 1}));
}

TEST(HostDiscovery, AFileOfThisFolderNeedsNoPath) {
  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  std::filesystem::current_path(folder);
  std::ofstream("rueda_hosts.sh") << "#!/bin/sh\necho a\n";
  std::filesystem::permissions("rueda_hosts.sh", std::filesystem::perms::owner_all);
  HostDiscovery discovery = discovery_of("rueda_hosts.sh");
  EXPECT_THAT(answer_of(discovery).hosts, ElementsAre(HostSlots{"a", 1}));
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

// Signals that wait to be read, as ruedarun has them.
struct Signals {
  SignalState before = signal_state();
  Descriptor waiting = catch_signals({SIGCHLD, SIGTERM});
  ~Signals() { set_signal_state(before); }
};

TEST(HostDiscovery, AStartWaitsUntilThereAreEnoughSlots) {
  const Signals signals;
  const std::string counter = testing::TempDir() + "rueda_count_" + std::to_string(::getpid());
  std::filesystem::remove(counter);
  HostDiscovery discovery = discovery_of("echo >> " + counter + "; echo a:$(wc -l < " + counter + ")");
  int signal = 0;
  const auto hosts = wait_for_slots(discovery, 2, 30s, signals.waiting, signal);
  ASSERT_TRUE(hosts);
  EXPECT_THAT(*hosts, ElementsAre(HostSlots{"a", 2}));
  std::filesystem::remove(counter);
}

TEST(HostDiscovery, AStartDoesNotWaitForEver) {
  const Signals signals;
  HostDiscovery discovery = discovery_of("echo a");
  int signal = 0;
  try {
    wait_for_slots(discovery, 2, 1s, signals.waiting, signal);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 of 2 ranks have a slot"));
  }
}

TEST(HostDiscovery, AStartEndsWithTheFirstFailure) {
  const Signals signals;
  HostDiscovery discovery = discovery_of("exit 1");
  int signal = 0;
  EXPECT_THROW(wait_for_slots(discovery, 2, 30s, signals.waiting, signal), std::runtime_error);
}

TEST(HostDiscovery, AStartEndsByASignal) {
  const Signals signals;
  HostDiscovery discovery = discovery_of("echo a");
  ::kill(::getpid(), SIGTERM);
  int signal = 0;
  EXPECT_FALSE(wait_for_slots(discovery, 2, 30s, signals.waiting, signal));
  EXPECT_EQ(signal, SIGTERM);
}

}  // namespace
}  // namespace rueda
