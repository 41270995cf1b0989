// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "launcher/protocol/agent_message.h"
#include "launcher/protocol/listener.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kConnectTimeout = 2s;  // with one address
// ruedarun listens before its agents start. If every address refuses for so long, ruedarun has ended.
constexpr auto kRefusedTimeout = 500ms;

bool wait_for(int descriptor, short what, Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd wait{descriptor, what, 0};
  return ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left))) == 1;
}

// Nothing, and the error in errno, where that fails.
Descriptor connect_to(const Endpoint& endpoint, Clock::time_point until) {
  Descriptor socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {};
  keep_alive(socket);
  const auto* address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (::connect(socket.number(), address, endpoint.length) == 0) return socket;
  int error = errno;
  if (error == EINPROGRESS && !wait_for(socket.number(), POLLOUT, until)) error = ETIMEDOUT;
  socklen_t length = sizeof error;
  if (error == EINPROGRESS) ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0) return socket;
  socket.close();
  errno = error;
  return {};
}

// Until both sides have proved themselves, or `until`.
bool authenticate(SecureChannel& channel, Clock::time_point until) {
  while (channel.state() == SecureChannel::State::greeting) {
    if (!wait_for(channel.descriptor(), POLLIN, until)) return false;
    channel.progress();
  }
  return channel.state() == SecureChannel::State::open;
}

}  // namespace

std::optional<SecureChannel> connect_to_supervisor(const Invitation& invitation,
                                                   const AgentIntroduction& introduction,
                                                   std::chrono::milliseconds timeout) {
  const std::vector<Endpoint> endpoints = endpoints_from(invitation.addresses);
  const std::string words = to_text(introduction);
  const auto give_up = Clock::now() + timeout;
  auto answered = Clock::now();  // at last, by anything but a refusal
  while (!endpoints.empty() && Clock::now() < give_up && Clock::now() - answered < kRefusedTimeout) {
    for (const Endpoint& endpoint : endpoints) {
      const auto until = std::min(give_up, Clock::now() + kConnectTimeout);
      Descriptor socket = connect_to(endpoint, until);
      if (socket || errno != ECONNREFUSED) answered = Clock::now();
      if (!socket) continue;
      SecureChannel channel = SecureChannel::connect(
          std::move(socket), invitation.key, std::as_bytes(std::span(words)), agents::kLongestMessage);
      if (authenticate(channel, until)) return channel;
    }
    std::this_thread::sleep_for(100ms);
  }
  return std::nullopt;
}

}  // namespace rueda
