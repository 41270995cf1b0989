// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/agent_server.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/protocol/listener.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeout = 5s;                // with a stranger
constexpr std::size_t kMoreThanHosts = 256;  // strangers at a time
constexpr int kListening = -1;               // keys of epoll; from 0 on: the hosts
constexpr int kStranger = -2;

std::string_view text_of(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

AgentServer::AgentServer(std::vector<std::string> hosts)
    : key_(random_key()),
      hosts_(std::move(hosts)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      agents_(hosts_.size()) {
  if (!poll_) throw std::system_error(errno, std::generic_category(), "cannot wait for the agents");
}

void AgentServer::add_host(const std::string& host) {
  hosts_.push_back(host);
  agents_.emplace_back();
}

Invitation AgentServer::invite() {
  if (listening_) return {key_, addresses_of(listening_)};
  allow_many_descriptors();
  listening_ = listen_for_agents();
  epoll_event event{.events = EPOLLIN, .data = {.fd = kListening}};
  if (::epoll_ctl(poll_.number(), EPOLL_CTL_ADD, listening_.number(), &event) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot listen for the agents");
  return {key_, addresses_of(listening_)};
}

void AgentServer::take_in(Descriptor socket) { add_stranger(std::move(socket), true); }

// Closing a descriptor takes it out of epoll.
void AgentServer::watch(const SecureChannel& channel, int key, bool known) {
  epoll_event event{.events = EPOLLIN | (channel.has_unsent() ? EPOLLOUT : 0U), .data = {.fd = key}};
  ::epoll_ctl(poll_.number(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, channel.descriptor(), &event);
}

// Of all that have something to say, so that what they say at one time is acted on at once.
std::vector<AgentServer::Heard> AgentServer::turn() {
  std::array<epoll_event, 64> events{};
  std::vector<Heard> heard;
  bool strangers = false, come = false;
  std::size_t left = agents_.size() + events.size();  // one that says more waits for its turn
  for (std::size_t count = events.size(); count == events.size() && left >= count; left -= count) {
    const int ready = ::epoll_wait(poll_.number(), events.data(), static_cast<int>(events.size()), 0);
    count = static_cast<std::size_t>(std::max(0, ready));
    for (const epoll_event& event : std::span(events).first(count)) {
      if (event.data.fd == kListening) come = true;
      if (event.data.fd == kStranger) strangers = true;
      if (event.data.fd >= 0) hear_agent(event.data.fd, heard);
    }
  }
  if (strangers) hear_strangers();
  const auto now = Clock::now();
  std::erase_if(strangers_, [&](const Stranger& stranger) { return stranger.deadline <= now; });
  if (come) accept();
  for (int host : std::exchange(welcomed_, {})) hear_agent(host, heard);  // it may have said more already
  return heard;
}

std::optional<AgentServer::Clock::time_point> AgentServer::next_deadline() const {
  // The list is in the order of arrival.
  const auto first = std::ranges::find(strangers_, false, &Stranger::of_this_machine);
  return first == strangers_.end() ? std::nullopt : std::optional(first->deadline);
}

void AgentServer::accept() {
  for (int taken = 0; taken < 64; ++taken) {
    Descriptor socket(::accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    keep_alive(socket);
    if (strangers_.size() >= agents_.size() + kMoreThanHosts) make_room();
    add_stranger(std::move(socket), false);
  }
}

// One at random goes, so that a crowd cannot push out an agent on purpose.
void AgentServer::make_room() {
  static std::minstd_rand random(std::random_device{}());
  auto victim = std::next(strangers_.begin(), static_cast<std::ptrdiff_t>(random() % strangers_.size()));
  if (!victim->of_this_machine) strangers_.erase(victim);
}

void AgentServer::add_stranger(Descriptor socket, bool of_this_machine) {
  const auto deadline = of_this_machine ? Clock::time_point::max() : Clock::now() + kTimeout;
  strangers_.push_back(
      {SecureChannel::accept(std::move(socket), key_, agents::kLongestMessage), deadline, of_this_machine});
  watch(strangers_.back().channel, kStranger, false);
}

void AgentServer::hear_strangers() {
  std::erase_if(strangers_, [this](Stranger& stranger) { return !hear(stranger); });
}

bool AgentServer::hear(Stranger& stranger) {
  stranger.channel.progress();
  if (stranger.channel.state() == SecureChannel::State::greeting) return true;
  const std::optional<AgentIntroduction> introduction =
      introduction_from(text_of(stranger.channel.introduction()));
  if (stranger.channel.state() != SecureChannel::State::open || !introduction) return false;
  const int host = host_of(*introduction);
  std::optional<SecureChannel>* agent = host < 0 ? nullptr : &agents_[static_cast<std::size_t>(host)];
  if (agent == nullptr || *agent) return false;
  agent->emplace(std::move(stranger.channel));
  welcomed_.push_back(host);
  ++there_;
  if (++came_ == agents_.size()) listening_.close();
  return false;
}

// -1 where there is no such host.
int AgentServer::host_of(const AgentIntroduction& introduction) const {
  // A host that has come back is there twice, and the last one counts.
  for (auto host = static_cast<int>(hosts_.size()); host-- > 0 && !introduction.name.empty();)
    if (hosts_[static_cast<std::size_t>(host)] == introduction.name) return host;
  return static_cast<std::size_t>(introduction.host) < hosts_.size() ? introduction.host : -1;
}

void AgentServer::hear_agent(int host, std::vector<Heard>& heard) {
  std::optional<SecureChannel>& agent = agents_[static_cast<std::size_t>(host)];
  if (!agent || agent->state() == SecureChannel::State::closed) return;
  std::uint32_t cost = 0;
  agent->progress();
  while (const std::optional<Bytes> bytes = agent->take()) {
    cost += static_cast<std::uint32_t>(agents::cost_of(*bytes));
    std::optional<agents::Message> message = agents::decode(*bytes);
    if (!message) {
      agent->close();  // it says nonsense: as good as gone
      break;
    }
    heard.push_back({host, std::move(*message)});
  }
  if (cost > 0) agent->send(agents::encode(agents::Credit{cost}));
  if (agent->state() == SecureChannel::State::open) return watch(*agent, host, true);
  --there_;
  heard.push_back({host, Gone{}});
}

void AgentServer::tell(int host, const agents::Message& message) {
  std::optional<SecureChannel>& agent = agents_[static_cast<std::size_t>(host)];
  if (!agent || agent->state() != SecureChannel::State::open) return;
  agent->send(agents::encode(message));
  if (agent->descriptor() >= 0) return watch(*agent, host, true);
  welcomed_.push_back(host);  // it takes nothing any more, of which the next turn tells
}

void AgentServer::tell_all(const agents::Message& message) {
  for (std::size_t host = 0; host < agents_.size(); ++host) tell(static_cast<int>(host), message);
}

void AgentServer::hold_output(bool hold) {
  if (hold != std::exchange(holds_output_, hold)) tell_all(agents::HoldOutput{hold});
}

void AgentServer::close() {
  for (std::optional<SecureChannel>& agent : agents_)
    if (agent) agent->close();
  there_ = 0;
  strangers_.clear();
  listening_.close();
}

}  // namespace rueda
