// SPDX-License-Identifier: Apache-2.0
// --virtual-hosts, --rails and --rate: what they set, and which values are refused in which words. Nothing is
// made here; tests/python/test_virtual_hosts.py does that.
#include "launcher/cli/virtual_hosts.h"

#include <gmock/gmock.h>

#include "launcher/start/launch_method.h"

namespace rueda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

LaunchOptions options_of(Words words, const std::string& ranks = "4") {
  words.insert(words.end(), {"-np", ranks, "prog"});
  return parse_launch_options(words);
}

std::string virtual_hosts_error(const Words& words, const std::string& ranks = "4") {
  try {
    options_of(words, ranks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(VirtualHosts, RanksStandInBlocks) {
  EXPECT_EQ(options_of({"--virtual-hosts", "2"}).hosts, "h0:2,h1:2");
  EXPECT_EQ(options_of({"--virtual-hosts", "3"}, "8").hosts, "h0:3,h1:3,h2:2");
  EXPECT_EQ(options_of({"--virtual-hosts", "1"}, "2").hosts, "h0:2");
}

TEST(VirtualHosts, RailsAndRate) {
  const LaunchOptions plain = options_of({"--virtual-hosts", "2"});
  EXPECT_EQ(plain.virtual_hosts.rails, 1);
  EXPECT_EQ(plain.virtual_hosts.rate, "max");
  EXPECT_EQ(plain.network_interface, "eth0");
  const LaunchOptions more =
      options_of({"--virtual-hosts=2", "--rails=2", "--rate", "200mbit", "--network-interface", "eth1"});
  EXPECT_EQ(more.virtual_hosts.rails, 2);
  EXPECT_EQ(more.virtual_hosts.rate, "200mbit");
  EXPECT_EQ(more.network_interface, "eth1");
  for (const char* rate : {"1gbit", "2.5gbit", "0.5mbit", "64kbit", "max"})
    EXPECT_EQ(virtual_hosts_error({"--virtual-hosts", "2", "--rate", rate}), "no error") << rate;
}

TEST(VirtualHosts, WithoutThemNothingChanges) {
  const LaunchOptions options = options_of({});
  EXPECT_EQ(options.virtual_hosts.count, 0);
  EXPECT_EQ(options.hosts, "");
  EXPECT_EQ(options.network_interface, "");
}

TEST(VirtualHosts, ErrorsNameTheValueAndTheRemedy) {
  for (const char* count : {"0", "100", "two", "-1"})
    EXPECT_THAT(virtual_hosts_error({"--virtual-hosts", count}),
                AllOf(HasSubstr(count), HasSubstr("from 1 to 99")));
  for (const char* rails : {"0", "10", "x"})
    EXPECT_THAT(virtual_hosts_error({"--virtual-hosts", "2", "--rails", rails}),
                AllOf(HasSubstr(rails), HasSubstr("from 1 to 9")));
  for (const char* rate : {"200", "fast", "0mbit", "-1mbit", "200mbit;", "1e3mbit"})
    EXPECT_THAT(virtual_hosts_error({"--virtual-hosts", "2", "--rate", rate}),
                AllOf(HasSubstr(rate), HasSubstr("200mbit")));
  EXPECT_THAT(virtual_hosts_error({"--virtual-hosts", "5"}),
              AllOf(HasSubstr("-np 4"), HasSubstr("every host")));
  EXPECT_THAT(virtual_hosts_error({"--rails", "2"}), HasSubstr("--virtual-hosts N"));
  EXPECT_THAT(virtual_hosts_error({"--rate", "1gbit"}), HasSubstr("--virtual-hosts N"));
  EXPECT_THAT(virtual_hosts_error({"--virtual-hosts", "2", "-H", "a,b"}), HasSubstr("--hosts"));
  EXPECT_THAT(virtual_hosts_error({"--virtual-hosts", "2", "-p", "22"}), HasSubstr("ssh"));
  EXPECT_THAT(virtual_hosts_error({"--virtual-hosts", "2", "--network-interface", "eth1"}),
              AllOf(HasSubstr("'eth1'"), HasSubstr("eth0")));
}

TEST(VirtualHosts, AgentsReachThemByTheProgramThatMadeThem) {
  const LaunchMethod method = launch_method(options_of({"--virtual-hosts", "2"}), surroundings());
  EXPECT_EQ(method.by, LaunchMethod::By::remote_shell);
  ASSERT_EQ(method.words.size(), 1u);
  EXPECT_THAT(method.words[0], HasSubstr("/rueda-hosts"));
  EXPECT_EQ(method.hosts, (std::vector<HostSlots>{{"h0", 2}, {"h1", 2}}));
}

TEST(VirtualHosts, WhatWasMadeIsOneLine) {
  EXPECT_THAT(
      what_was_made({4, 2, "200mbit"}),
      AllOf(HasSubstr("4 virtual hosts, h0 to h3, 2 rails of 200mbit each"), ::testing::EndsWith("stats\n")));
  EXPECT_THAT(what_was_made({1, 1, "max"}), HasSubstr("1 virtual host, h0, 1 rail without a limit of speed"));
}

}  // namespace
}  // namespace rueda
