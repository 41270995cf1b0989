// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/star/root_connector.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "ops/sockets/tcp_socket.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnect = 2s;    // with one address
constexpr auto kRootProof = 5s;  // the root may take to prove itself
// Between tries, an eighth of the time since the first one: ranks of one host are there within milliseconds.
constexpr Duration kShortestRetry = 500us;
constexpr Duration kLongestRetry = 10ms;

std::string text_of_error(int error) { return std::generic_category().message(error); }

// A socket that connects to a port of its own host may get that very port, and be connected with itself.
bool is_with_itself(const Descriptor& socket) {
  SocketAddress own, other;
  own.length = other.length = sizeof own.storage;
  return ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) == 0 &&
         ::getpeername(socket.number(), reinterpret_cast<sockaddr*>(&other.storage), &other.length) == 0 &&
         own.port() == other.port() && in_digits(own) == in_digits(other);
}

}  // namespace

Bytes to_bytes(const StarMember& member) {
  Writer writer;
  writer.put(member.rank);
  writer.put(member.size);
  writer.put_string(member.job);
  return writer.take();
}

std::optional<StarMember> star_member_from(ConstBytes bytes) {
  Reader reader(bytes);
  StarMember member;
  member.rank = reader.get<Rank>();
  member.size = reader.get<Rank>();
  member.job = reader.get_string();
  if (!reader.complete()) return std::nullopt;
  return member;
}

RootConnector::RootConnector(StarMember self, std::unique_ptr<RootAddress> address, Duration deadline,
                             Rank root)
    : self_(std::move(self)),
      finder_(std::move(address)),
      deadline_(deadline),
      root_rank_(root),
      obstacle_("nothing at " + finder_.where()) {}

std::optional<StarEdge> RootConnector::step(Time now) {
  switch (state_) {
    case State::looking: look(now); break;
    case State::connecting: check_connection(now); break;
    case State::greeting:
      if (!check_greeting(now)) break;
      state_ = State::looking;
      return std::exchange(edge_, std::nullopt);
  }
  return std::nullopt;
}

void RootConnector::wait(Duration longest) {
  PollSet set;
  switch (state_) {
    case State::looking:
      if (const Time now = clock_now(); now < again_) {
        set.sleep(std::min(longest, again_ - now));
      } else {
        finder_.wait(longest);
      }
      return;
    case State::connecting: set.add(socket_.number(), true); break;
    case State::greeting: edge_->watch(set); break;
  }
  set.sleep(longest);
}

void RootConnector::begin_again(Time now) { try_later(now, obstacle_ + ": it has closed the connection"); }

void RootConnector::look(Time now) {
  if (now < again_) return;
  std::optional<TcpEndpoint> found = finder_.found();
  if (!found || found->addresses.empty()) return;
  if (*found != root_) next_ = 0;
  root_ = std::move(*found);
  const TcpAddress& address = root_.addresses[next_++ % root_.addresses.size()];
  OpenedSocket opened = connect_to(address);
  if (!opened.socket)
    return try_later(now, fmt::format("{}: {}", to_string(address), text_of_error(opened.error)));
  socket_ = std::move(opened.socket);
  state_ = State::connecting;
  since_ = now;
}

void RootConnector::check_connection(Time now) {
  const std::string address = to_string(root_.addresses[(next_ - 1) % root_.addresses.size()]);
  int error = connect_error(socket_);
  if (error == EINPROGRESS && now - since_ < kConnect) return;
  if (error == EINPROGRESS) error = ETIMEDOUT;
  if (error == 0 && is_with_itself(socket_)) error = ECONNREFUSED;
  if (error != 0) return try_later(now, fmt::format("{}: {}", address, text_of_error(error)));
  prepare_for_data(socket_, deadline_);
  edge_.emplace(
      SecureChannel::connect(std::move(socket_), root_.secret, to_bytes(self_), StarEdge::kLongest));
  obstacle_ = address;
  state_ = State::greeting;
  since_ = now;
}

bool RootConnector::check_greeting(Time now) {
  SecureChannel& channel = edge_->channel();
  channel.progress();
  if (edge_->open()) static_cast<void>(edge_->take());
  if (edge_->confirmed()) return true;
  if (!edge_->refusal().empty())
    throw std::runtime_error(fmt::format("rank {} does not take rank {} into the job: {}", root_rank_,
                                         self_.rank, edge_->refusal()));
  if (channel.state() != SecureChannel::State::closed && now - since_ < kRootProof) return false;
  const std::string_view why = channel.refusal().empty() ? "no answer" : channel.refusal();
  try_later(now, fmt::format("{}: {}", obstacle_, why));
  return false;
}

void RootConnector::try_later(Time now, std::string why) {
  obstacle_ = std::move(why);
  socket_.close();
  edge_.reset();
  state_ = State::looking;
  if (first_ == Time{}) first_ = now;
  again_ = now + std::clamp((now - first_) / 8, kShortestRetry, kLongestRetry);
}

}  // namespace rueda
