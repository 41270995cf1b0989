// SPDX-License-Identifier: Apache-2.0
// Messages of ruedarun --doctor survive the way; anything else is refused.
#include "launcher/protocol/doctor_message.h"

#include <gtest/gtest.h>

#include "launcher/protocol/agent_message.h"

namespace rueda::agents {
namespace {

HostFacts some_facts() {
  return {
      .memory = {1, 2, "shm", "memfd", 3, 4, 5, 6, "always"},
      .cores = {8, 7, 4, 2, 1500, "tsc"},
      .processes =
          {{1, 2}, {3, 4}, {5, 6}, {7, kUnlimited}, 9, 8, 7, true, false, true, {"/dev/shm/a", ""}, 2, 10},
      .network = {{{"eth0", "10.0.0.1", 4242, 25'000, 9000}},
                  {{"h0", {"10.0.0.1", "fd00::1"}, "none"}},
                  2,
                  {"ib0"},
                  3},
      .software =
          {"0.1", "2.9", "MPICH", {"[X] CUDA"}, "folder", "program", "3.11", "2.9.1", "0.1.0", "2.9.0", "no"},
      .problems = {"names: none"}};
}

std::vector<Message> one_of_each_for_doctor() {
  return {some_facts(),
          Examine{1, AuthenticationKey{std::byte{7}}, {"h0", "h1"}, "eth0", "/home", {"A=1"}, {"prog", "x"}},
          AskTime{3},
          TellTime{3, -5},
          ReachHosts{{{1, {{"eth0", "10.0.0.2", 1, 0}}}}},
          Reached{{{1, 0, 2, ""}, {1, 1, 1, "refused"}}},
          MeasureLink{1, 0, 300},
          LinkMeasured{1, 0, 1000, 2000, 3000, "late"}};
}

TEST(DoctorMessage, ComesBackAsItWas) {
  for (const Message& message : one_of_each_for_doctor())
    EXPECT_EQ(decode(encode(message)), message) << message.index();
}

TEST(DoctorMessage, EveryTruncationAndEveryExcessIsRefused) {
  for (const Message& message : one_of_each_for_doctor()) {
    Bytes bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_FALSE(decode(ConstBytes(bytes).first(length))) << message.index() << " of " << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes)) << message.index();
  }
}

TEST(DoctorMessage, FlippedBitsGiveAnotherMessageOrNone) {
  for (const Message& message : one_of_each_for_doctor()) {
    const Bytes bytes = encode(message);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      Bytes flipped = bytes;
      flipped[bit / 8] ^= std::byte{1} << bit % 8;
      EXPECT_NE(decode(flipped), message);
    }
  }
}

TEST(DoctorMessage, NumbersOutOfRangeAreRefused) {
  EXPECT_FALSE(decode(encode(MeasureLink{1, 0, 10'001})));
  EXPECT_FALSE(decode(encode(MeasureLink{-1, 0, 100})));
  EXPECT_FALSE(decode(encode(AskTime{-1})));
}

// What an agent may send at once is bounded, and a longer message would never leave it.
TEST(DoctorMessage, FactsOfAnyHostFitIntoOneMessage) {
  HostFacts facts = some_facts();
  const HostFacts before = facts;
  shorten(facts, kMostAhead / 2);
  EXPECT_EQ(facts, before);
  const std::string longest(5000, 'x');
  facts.software.python_problem = longest;
  facts.processes.left_files.assign(64, std::string(250, 'f'));
  facts.network.names.assign(
      100, {std::string(250, 'n'), std::vector<std::string>(16, std::string(45, '1')), longest});
  facts.problems.assign(9, longest);
  shorten(facts, kMostAhead / 2);
  EXPECT_LE(cost_of(encode(facts)), kMostAhead);
  EXPECT_FALSE(facts.network.names.empty());
  EXPECT_EQ(facts.software.rueda, "0.1");
  EXPECT_EQ(decode(encode(facts)), Message(facts));
}

}  // namespace
}  // namespace rueda::agents
