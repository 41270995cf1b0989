// SPDX-License-Identifier: Apache-2.0
// Agents that belong to a job, and strangers.
#include "launcher/supervisor/agent_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <span>

#include "launcher/agent/agent_client.h"
#include "launcher/protocol/listener.h"
#include "launcher/supervisor/value_exchange.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using State = SecureChannel::State;

// Turns until `done`, ten seconds at most.
std::vector<AgentServer::Heard> turn_until(AgentServer& server,
                                           const std::function<bool(std::size_t)>& done) {
  std::vector<AgentServer::Heard> all;
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  while (!done(all.size()) && std::chrono::steady_clock::now() < give_up) {
    pollfd wait{server.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, 20);
    for (AgentServer::Heard& heard : server.turn()) all.push_back(std::move(heard));
  }
  return all;
}

const agents::Message& message_of(const AgentServer::Heard& heard) {
  return std::get<agents::Message>(heard.what);
}

agents::Message next_message(SecureChannel& agent) {
  std::optional<Bytes> bytes;
  for (int i = 0; i < 10'000 && !(bytes = agent.take()); ++i) {
    pollfd wait{agent.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, 1);
    agent.progress();
  }
  EXPECT_TRUE(bytes);
  return bytes ? agents::decode(*bytes).value() : agents::Message(agents::JobOver{});
}

// An agent that has met the server.
SecureChannel connected(AgentServer& server, const Invitation& invitation, const AgentIntroduction& who) {
  auto agent = std::async(std::launch::async, [&] { return connect_to_supervisor(invitation, who).value(); });
  turn_until(server, [&](std::size_t) { return agent.wait_for(0s) == std::future_status::ready; });
  turn_until(server, [&](std::size_t) { return !server.next_deadline(); });  // the server knows it, too
  return agent.get();
}

TEST(AgentServer, LetsInAnAgentThatKnowsTheKeyAndHearsIt) {
  AgentServer server({"a", "b"});
  SecureChannel agent = connected(server, server.invite(), {1, ""});
  agent.send(agents::encode(agents::Ready{"here", 5}));
  const auto heard = turn_until(server, [](std::size_t count) { return count == 1; });
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].host, 1);
  EXPECT_EQ(message_of(heard[0]), agents::Message(agents::Ready{"here", 5}));
  const auto cost = static_cast<std::uint32_t>(agents::cost_of(agents::encode(agents::Ready{"here", 5})));
  EXPECT_EQ(next_message(agent), agents::Message(agents::Credit{cost})) << "it may send as much again";
  server.tell(1, agents::SendSignal{15});
  EXPECT_EQ(next_message(agent), agents::Message(agents::SendSignal{15}));
  EXPECT_FALSE(server.all_gone());
  agent.close();
  const auto after = turn_until(server, [](std::size_t count) { return count == 1; });
  ASSERT_EQ(after.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<AgentServer::Gone>(after[0].what));
  EXPECT_TRUE(server.all_gone());
}

TEST(AgentServer, ANameCountsMoreThanANumber) {
  AgentServer server({"node7", "node3"});
  SecureChannel agent = connected(server, server.invite(), {0, "node3"});
  agent.send(agents::encode(agents::Ready{"node3", 5}));
  const auto heard = turn_until(server, [](std::size_t count) { return count == 1; });
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].host, 1);
}

TEST(AgentServer, AnAgentOfThisMachineNeedsNoAddress) {
  AgentServer server({"here"});
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  server.take_in(Descriptor(ends[0]));
  const std::string who = to_text(AgentIntroduction{0, ""});
  SecureChannel agent = SecureChannel::connect(Descriptor(ends[1]), server.key(),
                                               std::as_bytes(std::span(who)), agents::kLongestMessage);
  turn_until(server, [&](std::size_t) { return agent.progress(), agent.state() == State::open; });
  agent.send(agents::encode(agents::BarrierIn{}));
  EXPECT_EQ(turn_until(server, [](std::size_t count) { return count == 1; }).size(), 1u);
}

// A stranger that plays by the rules but does not know the key.
TEST(AgentServer, RefusesAWrongKeyAndASecondAgentForAHost) {
  AgentServer server({"a", "b"});
  const Invitation invitation = server.invite();
  const Endpoint endpoint = endpoints_from(invitation.addresses).at(0);
  const auto call = [&](const AuthenticationKey& key) {
    Descriptor socket(::socket(endpoint.address.ss_family, SOCK_STREAM, 0));
    EXPECT_EQ(
        ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.length), 0);
    const std::string who = to_text(AgentIntroduction{0, ""});
    return SecureChannel::connect(std::move(socket), key, std::as_bytes(std::span(who)), 1000);
  };
  const auto is_dropped = [&](SecureChannel& channel) {
    turn_until(server, [&](std::size_t) {
      channel.progress();
      while (channel.take()) {}
      return channel.state() == State::closed;
    });
    return channel.state() == State::closed;
  };
  SecureChannel wrong = call(random_key());
  EXPECT_TRUE(is_dropped(wrong));
  SecureChannel right = connected(server, invitation, {0, ""});
  SecureChannel second = call(invitation.key);
  EXPECT_TRUE(is_dropped(second));
  SecureChannel unknown = connected(server, invitation, {7, ""});
  EXPECT_TRUE(is_dropped(unknown));
  EXPECT_EQ(right.state(), State::open);
}

TEST(AgentServer, AnAgentRefusesASupervisorThatCannotProveItself) {
  AgentServer impostor({"a"});
  Invitation invitation = impostor.invite();
  invitation.key = random_key();
  std::atomic<bool> over = false;
  auto agent = std::async(std::launch::async, [&] {
    const bool connected = connect_to_supervisor(invitation, {0, ""}, 1s).has_value();
    over = true;
    return connected;
  });
  EXPECT_TRUE(turn_until(impostor, [&](std::size_t) { return over.load(); }).empty());
  EXPECT_FALSE(agent.get());
}

TEST(AgentServer, ListensNoMoreWhenAllAreThere) {
  AgentServer server({"a"});
  const Invitation invitation = server.invite();
  const SecureChannel agent = connected(server, invitation, {0, ""});
  turn_until(server, [&](std::size_t) { return !server.next_deadline(); });
  EXPECT_FALSE(connect_to_supervisor(invitation, {0, ""}, 200ms));
}

TEST(ValueExchange, ValuesComeBeforeTheEndOfTheBarrier) {
  AgentServer server({"a", "b"});
  const Invitation invitation = server.invite();
  ValueExchange values(server, 2);
  SecureChannel first = connected(server, invitation, {0, ""});
  values.put({"k", "1"});
  values.enter_barrier(0);
  SecureChannel late = connected(server, invitation, {1, ""});
  turn_until(server, [&](std::size_t) { return !server.next_deadline(); });
  values.welcome(1);
  values.enter_barrier(1);
  for (SecureChannel* agent : {&first, &late}) {
    EXPECT_EQ(next_message(*agent), agents::Message(agents::Put{"k", "1"}));
    EXPECT_EQ(next_message(*agent), agents::Message(agents::BarrierOut{}));
  }
}

TEST(Invitation, ComesBackAsItWas) {
  const Invitation invitation{random_key(), "80,10.0.0.1,fd00::2"};
  const std::string text = to_text(invitation);
  EXPECT_EQ(invitation_from(text), invitation);
  for (std::size_t length = 0; length + invitation.addresses.size() < text.size(); ++length)
    EXPECT_FALSE(invitation_from(text.substr(0, length)));
  EXPECT_FALSE(invitation_from("x" + text));
  const AgentIntroduction introduction{3, "node3"};
  EXPECT_EQ(introduction_from(to_text(introduction)), introduction);
  EXPECT_FALSE(introduction_from("-1 x"));
  EXPECT_FALSE(introduction_from("1"));
  EXPECT_TRUE(endpoints_from("").empty());
  EXPECT_TRUE(endpoints_from("0,127.0.0.1").empty());
  EXPECT_TRUE(endpoints_from("70000,127.0.0.1").empty());
  EXPECT_EQ(endpoints_from("80,127.0.0.1,nonsense,::1").size(), 2u);
}

}  // namespace
}  // namespace rueda
