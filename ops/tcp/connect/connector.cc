// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/connect/connector.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace rueda {
namespace {

constexpr auto kPause = std::chrono::milliseconds(200);  // before all begin again

}  // namespace

TcpConnector::TcpConnector(Rank rank, Rank peer, std::vector<TcpAddress> own, TcpEndpoint theirs,
                           Duration timeout, bool encrypted)
    : rank_(rank),
      peer_(peer),
      own_(std::move(own)),
      theirs_(std::move(theirs)),
      timeout_(timeout),
      encrypted_(encrypted),
      lanes_(own_.size()) {
  for (Lane& lane : lanes_) lane.tried.resize(theirs_.addresses.size());
}

void TcpConnector::step(Time now) {
  if (over() || now < again_) return;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) advance(lane, now);
  const auto answered = std::ranges::count(lanes_, true, &Lane::answered);
  const bool full = std::cmp_equal(answered, std::min(own_.size(), theirs_.addresses.size()));
  const bool at_an_end =
      std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.answered || lane.given_up; });
  if (!full && !at_an_end) return;
  if (answered > 0 && settle()) return;
  for (Lane& lane : lanes_) {
    std::string words = std::move(lane.words);
    lane = {};
    lane.tried.resize(theirs_.addresses.size());
    lane.words = std::move(words);
  }
  first_answer_.reset();
  again_ = now + kPause;
}

void TcpConnector::watch(std::vector<pollfd>& sockets) const {
  for (const Lane& lane : lanes_) {
    if (!lane.trying()) continue;
    sockets.push_back({lane.socket.number(), static_cast<short>(lane.connected ? POLLIN : POLLOUT), 0});
  }
}

std::string TcpConnector::tried() const {
  std::string text;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    std::string words = lanes_[lane].words;
    if (lanes_[lane].trying())
      words = fmt::format("{} {}", to_string(theirs_.addresses[*lanes_[lane].target]),
                          lanes_[lane].connected ? "did not answer" : "could not be reached");
    if (!words.empty()) text += fmt::format("{}{} -> {}", text.empty() ? "" : "; ", own_[lane].host, words);
  }
  return text;
}

void TcpConnector::advance(std::size_t at, Time now) {
  Lane& lane = lanes_[at];
  if (!lane.target && !lane.given_up) begin(at, now);
  if (lane.trying()) hear(lane, now);
}

// The next address that no other lane has, or tries.
void TcpConnector::begin(std::size_t at, Time now) {
  Lane& lane = lanes_[at];
  const std::size_t count = theirs_.addresses.size();
  lane.given_up = true;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t target = (at + i) % count;
    if (lane.tried[target]) continue;
    const auto taken = std::ranges::find(lanes_, std::optional(target), &Lane::target);
    if (taken != lanes_.end()) {
      if (!taken->answered) lane.given_up = false;  // it may become free
      continue;
    }
    lane.tried[target] = true;
    lane.target = target;
    lane.given_up = false;
    lane.since = now;
    OpenedSocket opened = connect_from(own_[at], theirs_.addresses[target]);
    lane.socket = std::move(opened.socket);
    if (!lane.socket) leave(lane, std::generic_category().message(opened.error));
    return;
  }
}

// Goes on with a connection that is under way.
void TcpConnector::hear(Lane& lane, Time now) {
  if (!lane.connected) {
    const int error = connect_error(lane.socket);
    if (error == EINPROGRESS) {
      if (expired(lane, now)) leave(lane, "could not be reached");
      return;
    }
    if (error != 0) return leave(lane, std::generic_category().message(error));
    lane.connected = true;
    const auto at = static_cast<std::size_t>(&lane - lanes_.data());
    lane.exchange = random_exchange_keys();
    lane.hello = make_hello(theirs_.secret, rank_, peer_, at, *lane.target, lane.exchange.open, encrypted_);
    if (!send_block(lane.socket, lane.hello)) return leave(lane, "closed the connection");
  }
  switch (lane.answer.read(lane.socket)) {
    case BlockReader<TcpAnswer>::Came::not_yet:
      if (expired(lane, now)) leave(lane, "did not answer");
      return;
    case BlockReader<TcpAnswer>::Came::never: return leave(lane, "closed the connection");
    case BlockReader<TcpAnswer>::Came::all: break;
  }
  if (!proves(lane.answer.block(), lane.hello, theirs_.secret)) return leave(lane, "is not of this job");
  const std::optional<RailKeys> keys =
      keys_of(HandshakeSide::connecting, lane.hello, lane.answer.block(), theirs_.secret, lane.exchange);
  if (!keys) return leave(lane, "is not of this job");
  lane.keys = *keys;
  lane.answered = true;
  if (!first_answer_) first_answer_ = now;
}

void TcpConnector::leave(Lane& lane, std::string words) {
  lane.words = fmt::format("{} {}", to_string(theirs_.addresses[*lane.target]), words);
  lane.socket.close();
  lane.target.reset();
  lane.connected = false;
  lane.answer = {};
}

bool TcpConnector::expired(const Lane& lane, Time now) const {
  if (!lane.connected) return now - lane.since > timeout_;
  return first_answer_ && now - std::max(lane.since, *first_answer_) > timeout_;
}

// All that have been answered are rails; the others are closed.
bool TcpConnector::settle() {
  const auto count = static_cast<std::size_t>(std::ranges::count(lanes_, true, &Lane::answered));
  for (Lane& lane : lanes_) {
    if (!lane.answered) continue;
    if (!send_block(lane.socket, settled_as(rails_.size(), count, lane.keys))) {
      rails_.clear();
      return false;
    }
    rails_.push_back({std::move(lane.socket), lane.keys});
  }
  for (Lane& lane : lanes_) lane.socket.close();
  return true;
}

}  // namespace rueda
