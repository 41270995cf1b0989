// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/agent_server.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "launcher/protocol/listener.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 5s;              // with a stranger
constexpr std::size_t kMoreThanRanks = 64;  // strangers at a time; the oldest has to go
constexpr int kListening = -1;              // keys of epoll; from 0 on: the ranks
constexpr int kStranger = -2;

}  // namespace

AgentServer::AgentServer(const Token& token, int ranks, bool other_hosts)
    : token_(token),
      listening_(listen_for_agents(other_hosts)),
      addresses_(addresses_of(listening_, other_hosts)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      agents_(static_cast<std::size_t>(ranks)) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = kListening}};
  if (!poll_ || ::epoll_ctl(poll_.number(), EPOLL_CTL_ADD, listening_.number(), &event) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot listen for the agents");
  allow_many_descriptors();
}

// Closing a descriptor takes it out of epoll.
void AgentServer::watch(const FrameStream& stream, int key, bool known) {
  epoll_event event{.events = EPOLLIN | (stream.has_unsent() ? EPOLLOUT : 0U), .data = {.fd = key}};
  ::epoll_ctl(poll_.number(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, stream.descriptor(), &event);
}

std::vector<AgentServer::Heard> AgentServer::turn() {
  std::array<epoll_event, 64> events{};
  std::vector<Heard> heard;
  const int count = ::epoll_wait(poll_.number(), events.data(), static_cast<int>(events.size()), 0);
  bool strangers = false;
  for (int i = 0; i < count; ++i) {
    const int key = events[static_cast<std::size_t>(i)].data.fd;
    if (key == kListening) accept();
    if (key == kStranger) strangers = true;
    if (key >= 0) hear_agent(key, heard);
  }
  const auto now = Clock::now();
  std::erase_if(strangers_, [&](const Stranger& stranger) { return stranger.deadline <= now; });
  if (strangers) hear_strangers();
  for (int rank : std::exchange(welcomed_, {})) hear_agent(rank, heard);  // it may have said more already
  return heard;
}

std::optional<AgentServer::Clock::time_point> AgentServer::next_deadline() const {
  if (strangers_.empty()) return std::nullopt;
  return strangers_.front().deadline;  // the list is in the order of arrival
}

void AgentServer::accept() {
  for (int taken = 0; taken < 64; ++taken) {
    Descriptor socket(::accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    keep_alive(socket);
    if (strangers_.size() >= agents_.size() + kMoreThanRanks) strangers_.pop_front();
    strangers_.push_back({FrameStream(std::move(socket)), Clock::now() + kPatience, std::nullopt, {}});
    watch(strangers_.back().stream, kStranger, false);
  }
}

void AgentServer::hear_strangers() {
  std::erase_if(strangers_, [this](Stranger& stranger) { return !hear(stranger); });
}

bool AgentServer::hear(Stranger& stranger) {
  stranger.stream.flush();
  stranger.stream.receive();
  while (std::optional<Bytes> frame = stranger.stream.take()) {
    std::optional<agents::Message> message = agents::decode(*frame);
    if (!message) return false;
    const auto* greeting = std::get_if<agents::Greeting>(&*message);
    const auto* answer = std::get_if<agents::Answer>(&*message);
    if (greeting != nullptr && !stranger.greeting) {
      if (!challenge(stranger, *greeting)) return false;
    } else if (answer != nullptr && stranger.greeting) {
      welcome(stranger, *answer);
      return false;  // its stream is elsewhere now, or it is refused
    } else {
      return false;
    }
  }
  return static_cast<bool>(stranger.stream);
}

bool AgentServer::challenge(Stranger& stranger, const agents::Greeting& greeting) {
  if (static_cast<std::size_t>(greeting.rank) >= agents_.size()) return false;
  stranger.greeting = greeting;
  stranger.nonce = random_nonce();
  const Proof proof = prove(token_, Role::supervisor, greeting.rank, greeting.nonce, stranger.nonce);
  stranger.stream.send(agents::encode(agents::Challenge{stranger.nonce, proof}));
  return true;
}

void AgentServer::welcome(Stranger& stranger, const agents::Answer& answer) {
  const agents::Greeting& greeting = *stranger.greeting;
  FrameStream& place = agents_[static_cast<std::size_t>(greeting.rank)];
  const Proof expected = prove(token_, Role::agent, greeting.rank, greeting.nonce, stranger.nonce);
  if (place || !same(answer.proof, expected)) return;
  place = std::move(stranger.stream);
  welcomed_.push_back(greeting.rank);
}

void AgentServer::hear_agent(int rank, std::vector<Heard>& heard) {
  FrameStream& stream = agents_[static_cast<std::size_t>(rank)];
  if (!stream) return;
  stream.flush();
  stream.receive();
  while (std::optional<Bytes> frame = stream.take()) {
    std::optional<agents::Message> message = agents::decode(*frame);
    Heard& fresh = heard.emplace_back(rank);
    if (message && std::holds_alternative<agents::Started>(*message)) {
      fresh.what = std::get<agents::Started>(std::move(*message));
    } else if (message && std::holds_alternative<agents::Ended>(*message)) {
      fresh.what = std::get<agents::Ended>(*message);
    } else {
      stream.close();
      return;  // it says nonsense: as good as gone
    }
  }
  if (stream) {
    watch(stream, rank, true);
  } else {
    heard.emplace_back(rank);
  }
}

void AgentServer::tell(int rank, const agents::Message& message) {
  FrameStream& stream = agents_[static_cast<std::size_t>(rank)];
  stream.send(agents::encode(message));
  if (stream) watch(stream, rank, true);
}

void AgentServer::tell_all(const agents::Message& message) {
  for (std::size_t rank = 0; rank < agents_.size(); ++rank) tell(static_cast<int>(rank), message);
}

void AgentServer::close() {
  for (FrameStream& stream : agents_) stream.close();
  strangers_.clear();
  listening_.close();
}

}  // namespace rueda
