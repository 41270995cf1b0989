// SPDX-License-Identifier: Apache-2.0
// Who is let in, and who is not.
#include "launcher/supervisor/agent_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <future>

#include "launcher/agent/agent_client.h"
#include "launcher/job/environment.h"
#include "launcher/protocol/listener.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

// Turns until `done`, ten seconds at most.
std::vector<AgentServer::Heard> turn_until(AgentServer& hub, const std::function<bool(std::size_t)>& done) {
  std::vector<AgentServer::Heard> all;
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  while (!done(all.size()) && std::chrono::steady_clock::now() < give_up) {
    pollfd wait{hub.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, 20);
    for (AgentServer::Heard& heard : hub.turn()) all.push_back(std::move(heard));
  }
  return all;
}

TEST(AgentServer, LetsInWhoKnowsTheTokenAndHearsIt) {
  const Token token = random_token();
  AgentServer hub(token, 2, false);
  auto agent = std::async(std::launch::async, [&] {
    FrameStream line = connect_to_supervisor({hub.addresses(), token}, 1);
    line.send(agents::encode(agents::Started{"here", 5, 4, 3}));
    return line;
  });
  const std::vector<AgentServer::Heard> heard = turn_until(hub, [](std::size_t count) { return count == 1; });
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].rank, 1);
  EXPECT_EQ(std::get<agents::Started>(heard[0].what), (agents::Started{"here", 5, 4, 3}));

  FrameStream line = agent.get();
  hub.tell(1, agents::SendSignal{15});
  std::optional<Bytes> frame;
  while (!(frame = line.take())) line.receive();
  EXPECT_EQ(agents::decode(*frame), agents::Message(agents::SendSignal{15}));
  line.close();
  const std::vector<AgentServer::Heard> after = turn_until(hub, [](std::size_t count) { return count == 1; });
  ASSERT_EQ(after.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<AgentServer::Gone>(after[0].what));
}

// A stranger that plays by the rules but cannot prove anything.
TEST(AgentServer, RefusesAWrongProofAndASecondAgentForARank) {
  const Token token = random_token();
  AgentServer hub(token, 1, false);
  const Endpoint endpoint = endpoints_from(hub.addresses()).at(0);
  auto connect = [&] {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(
        ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.length), 0);
    return FrameStream(std::move(socket));
  };
  auto greet = [&](FrameStream& stream, const Token& known) {
    const Nonce nonce = random_nonce();
    stream.send(agents::encode(agents::Greeting{0, nonce}));
    std::optional<Bytes> frame;
    turn_until(hub, [&](std::size_t) {
      stream.receive();
      return (frame = stream.take()) || !stream;
    });
    if (!frame) return;
    const auto challenge = std::get<agents::Challenge>(*agents::decode(*frame));
    stream.send(agents::encode(agents::Answer{prove(known, Role::agent, 0, nonce, challenge.nonce)}));
  };
  auto is_dropped = [&](FrameStream& stream) {
    turn_until(hub, [&](std::size_t) {
      stream.receive();
      return !stream;
    });
    return !stream;
  };
  FrameStream wrong = connect();
  greet(wrong, random_token());
  EXPECT_TRUE(is_dropped(wrong));

  FrameStream right = connect();
  greet(right, token);
  right.send(agents::encode(agents::Started{"here", 5, 4, 3}));
  EXPECT_EQ(turn_until(hub, [](std::size_t count) { return count == 1; }).size(), 1u);
  FrameStream second = connect();
  greet(second, token);
  EXPECT_TRUE(is_dropped(second));
  EXPECT_TRUE(right);
}

TEST(AgentServer, AnAgentRefusesASupervisorThatCannotProveItself) {
  AgentServer impostor(random_token(), 1, false);
  std::atomic<bool> over = false;
  auto agent = std::async(std::launch::async, [&] {
    const bool connected =
        static_cast<bool>(connect_to_supervisor({impostor.addresses(), random_token()}, 0, 1s));
    over = true;
    return connected;
  });
  EXPECT_TRUE(turn_until(impostor, [&](std::size_t) { return over.load(); }).empty());
  EXPECT_FALSE(agent.get());
}

TEST(AgentServer, TokensAndAddressesThatAreNone) {
  const Token token = random_token();
  EXPECT_EQ(token_from(to_text(token)), token);
  EXPECT_FALSE(token_from(""));
  EXPECT_FALSE(token_from(std::string(32, 'x')));
  EXPECT_FALSE(token_from(to_text(token) + "0"));
  EXPECT_TRUE(endpoints_from("").empty());
  EXPECT_TRUE(endpoints_from("0,127.0.0.1").empty());
  EXPECT_TRUE(endpoints_from("70000,127.0.0.1").empty());
  EXPECT_EQ(endpoints_from("80,127.0.0.1,nonsense,::1").size(), 2u);
}

}  // namespace
}  // namespace rueda
