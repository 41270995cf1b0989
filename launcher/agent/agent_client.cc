// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "launcher/protocol/agent_message.h"
#include "launcher/protocol/listener.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kConnectPatience = 2s;  // with one address

bool wait_for(int descriptor, short what, Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd wait{descriptor, what, 0};
  return ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left))) == 1;
}

Descriptor connect_to(const Endpoint& endpoint, Clock::time_point until) {
  Descriptor socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {};
  keep_alive(socket);
  const auto* address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (::connect(socket.number(), address, endpoint.length) == 0) return socket;
  if (errno != EINPROGRESS || !wait_for(socket.number(), POLLOUT, until)) return {};
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? std::move(socket) : Descriptor();
}

std::optional<agents::Message> next_message(FrameStream& stream, Clock::time_point until) {
  while (stream) {
    if (std::optional<Bytes> frame = stream.take()) return agents::decode(*frame);
    if (!wait_for(stream.descriptor(), POLLIN, until)) return std::nullopt;
    stream.receive();
  }
  return std::nullopt;
}

bool prove_each_other(FrameStream& stream, const Token& token, int rank, Clock::time_point until) {
  const agents::Greeting greeting{rank, random_nonce()};
  stream.send(agents::encode(greeting));
  const std::optional<agents::Message> reply = next_message(stream, until);
  const auto* challenge = reply ? std::get_if<agents::Challenge>(&*reply) : nullptr;
  if (challenge == nullptr) return false;
  const Proof expected = prove(token, Role::supervisor, rank, greeting.nonce, challenge->nonce);
  if (!same(challenge->proof, expected)) return false;
  stream.send(
      agents::encode(agents::Answer{prove(token, Role::agent, rank, greeting.nonce, challenge->nonce)}));
  return true;
}

}  // namespace

FrameStream connect_to_supervisor(const Supervision& supervision, int rank,
                                  std::chrono::milliseconds patience) {
  const std::vector<Endpoint> endpoints = endpoints_from(supervision.addresses);
  const auto give_up = Clock::now() + patience;
  while (supervision.token && !endpoints.empty() && Clock::now() < give_up) {
    for (const Endpoint& endpoint : endpoints) {
      const auto until = std::min(give_up, Clock::now() + kConnectPatience);
      Descriptor socket = connect_to(endpoint, until);
      if (!socket) continue;
      FrameStream stream(std::move(socket));
      if (prove_each_other(stream, *supervision.token, rank, until)) return stream;
    }
    std::this_thread::sleep_for(100ms);
  }
  return {};
}

}  // namespace rueda
