// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/star/star_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <ranges>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "ops/sockets/tcp_socket.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kComeBack = 2s;        // during the start, for a rank whose connection has ended
constexpr auto kRootComesBack = 5s;   // the same, for rank 0
constexpr auto kFarewells = 2s;       // at the end of the job
constexpr auto kLastWords = 300ms;    // after a failure
constexpr auto kBetweenLooks = 20ms;  // for lost ranks
constexpr auto kLongestSleep = 10ms;  // at the end of the job

// Until over() says so, or for so long.
template <class Edges, class Over>
void wait_for_edges(Edges&& edges, Duration limit, Over over) {
  for (const Time end = clock_now() + limit; !over() && clock_now() < end;) {
    PollSet set;
    for (const StarEdge& edge : edges) {
      if (!edge.over()) edge.watch(set);
    }
    set.sleep(kLongestSleep);
  }
}

// After a regular end: until each edge has told its farewell and heard that of the other side.
template <class Edges>
void part_with(Edges&& edges) {
  for (StarEdge& edge : edges) edge.say_farewell();
  wait_for_edges(edges, kFarewells, [&] {
    for (StarEdge& edge : edges) {
      if (edge.over()) continue;
      edge.channel().progress();
      while (edge.take()) {}
    }
    return std::ranges::all_of(edges, &StarEdge::over);
  });
}

// After a failure: the other side should read what was sent, and then the end.
template <class Edges>
void leave(Edges&& edges) {
  const auto sent = [](StarEdge& edge) {
    edge.channel().progress();
    return !edge.open() || !edge.channel().has_unsent();
  };
  wait_for_edges(edges, kFarewells, [&] { return std::ranges::all_of(edges, sent); });
  for (StarEdge& edge : edges) edge.channel().close_for_sending();
  wait_for_edges(edges, kLastWords, [&] {
    for (StarEdge& edge : edges) {
      edge.channel().progress();
      while (edge.take()) {}
    }
    return std::ranges::none_of(edges, &StarEdge::open);
  });
}

template <class Edges>
void end(Edges&& edges, bool in_order) {
  if (in_order) {
    part_with(edges);
  } else {
    leave(edges);
  }
}

}  // namespace

StarRoot::StarRoot(StarMember self, StarListener listener, std::unique_ptr<RootAddress> address,
                   Duration deadline)
    : self_(std::move(self)),
      door_(std::in_place, std::move(listener), self_.size, deadline),
      address_(std::move(address)) {
  address_->publish(door_->endpoint());
}

StarRoot::~StarRoot() { end(edges_ | std::views::values, in_order_); }

void StarRoot::send(Rank to, Bytes bytes) {
  owner_.check();
  if (const auto found = edges_.find(to); found != edges_.end()) found->second.send(bytes);
}

bool StarRoot::drain() {
  owner_.check();
  bool all = true;
  for (auto& [rank, edge] : edges_) {
    if (!edge.open() || !edge.channel().has_unsent()) continue;
    edge.channel().progress();
    all &= !edge.open() || !edge.channel().has_unsent();
  }
  return all;
}

std::optional<Envelope> StarRoot::receive() {
  owner_.check();
  if (arrived_.empty()) {
    if (address_) {
      for (StarEdge& edge : door_->take()) seat(std::move(edge));
      obstacle_ = address_->settled() ? door_->obstacle() : address_->in_words();
    }
    look_at_members();
    if (address_) close_when_complete();
    std::ranges::reverse(arrived_);
  }
  if (arrived_.empty()) return std::nullopt;
  Envelope envelope = std::move(arrived_.back());
  arrived_.pop_back();
  return envelope;
}

// Returns false if there is an obstacle. The caller looks again soon, as no descriptor signals its end.
bool StarRoot::wait(Duration longest) {
  owner_.check();
  if (!obstacle_.empty()) return false;
  if (!arrived_.empty()) return true;
  PollSet set;
  if (door_) door_->watch(set);
  for (const auto& [rank, edge] : edges_) edge.watch(set);
  set.sleep(longest);
  return true;
}

// A rank of another job comes again when this one has all its ranks.
void StarRoot::seat(StarEdge edge) {
  const std::optional<StarMember> member = star_member_from(edge.channel().introduction());
  if (!member || member->job != self_.job) return;
  if (member->size != self_.size || member->rank <= 0 || member->rank >= self_.size)
    return edge.turn_away(fmt::format("it says that it is rank {} of {}, and rank 0 starts a job of {} ranks",
                                      member->rank, member->size, self_.size));
  const auto found = edges_.find(member->rank);
  if (found != edges_.end()) {
    look_at_members();
    if (found->second.open() && !found->second.parted())
      return edge.turn_away(fmt::format("another process is rank {} already", member->rank));
    edges_.erase(found);
  }
  gone_.erase(member->rank);
  edge.confirm();
  edges_.emplace(member->rank, std::move(edge));
}

void StarRoot::look_at_members() {
  for (auto& [rank, edge] : edges_) {
    if (!edge.open()) continue;
    edge.channel().progress();
    while (std::optional<Bytes> message = edge.take()) arrived_.push_back({rank, std::move(*message)});
  }
}

void StarRoot::close_when_complete() {
  const auto is_here = [](const StarEdge& edge) { return edge.open() && !edge.parted(); };
  const auto here = std::ranges::count_if(edges_ | std::views::values, is_here);
  if (here + 1 < self_.size) return;
  door_.reset();
  address_->retire();
  address_.reset();
}

// During the start a farewell is a loss, too, and a rank may come again.
std::vector<Rank> StarRoot::lost(Time now) {
  owner_.check();
  if (now - looked_ < kBetweenLooks) return {};
  looked_ = now;
  std::vector<Rank> fresh;
  for (const auto& [rank, edge] : edges_) {
    if (!edge.lost() && !(address_ && edge.parted())) continue;
    const Time since = gone_.try_emplace(rank, now).first->second;
    if (address_ && now - since < kComeBack) continue;
    if (told_lost_.insert(rank).second) fresh.push_back(rank);
  }
  return fresh;
}

void StarRoot::cut() {
  for (auto& [rank, edge] : edges_) edge.channel().close();
}

StarLeaf::StarLeaf(StarMember self, std::unique_ptr<RootAddress> address, Duration deadline,
                   StarListener listener)
    : connector_(std::make_unique<RootConnector>(self, std::move(address), deadline)) {
  if (!listener.sockets.empty())
    relay_ = std::make_unique<WelcomeRelay>(std::move(self), std::move(listener), deadline);
}

StarLeaf::~StarLeaf() {
  if (edge_) end(std::span(&*edge_, 1), in_order_);
}

void StarLeaf::send(Rank to, Bytes bytes) {
  owner_.check();
  RUEDA_ASSERT(to == 0 || relay_);
  if (to != 0) return relay_->send(to, std::move(bytes));
  if (edge_) edge_->send(bytes);
  if (connector_) unanswered_.push_back(std::move(bytes));
}

void StarLeaf::take_welcome_from(Rank rank, const std::string& relay) {
  owner_.check();
  RUEDA_ASSERT(relay_);
  relay_->follow(rank, relay);
}

std::string StarLeaf::obstacle() const {
  if (relay_ && relay_->following()) return relay_->obstacle();
  return connector_ ? connector_->obstacle() : "";
}

bool StarLeaf::drain() {
  owner_.check();
  if (relay_ && !relay_->drain(clock_now())) return false;
  relay_.reset();
  if (!edge_) return true;
  edge_->channel().progress();
  return !edge_->open() || !edge_->channel().has_unsent();
}

bool StarLeaf::wait(Duration longest) {
  owner_.check();
  if (!edge_ && connector_) {
    connector_->wait(longest);
  } else if (relay_ && relay_->following()) {
    relay_->wait(longest);
  } else {
    PollSet set;
    if (edge_) edge_->watch(set);
    if (relay_) relay_->watch(set);
    set.sleep(longest);
  }
  return true;
}

std::optional<Time> StarLeaf::known_to_root_since() const {
  return edge_ && edge_->open() ? std::optional(since_) : std::nullopt;
}

std::optional<Envelope> StarLeaf::receive() {
  owner_.check();
  const Time now = clock_now();
  if (!edge_ && connector_) {
    edge_ = connector_->step(now);
    if (!edge_) return std::nullopt;
    since_ = now;
    broken_.reset();
    for (const Bytes& message : unanswered_) edge_->send(message);
  }
  edge_->channel().progress();
  if (std::optional<Bytes> message = edge_->take()) {
    connector_.reset();
    unanswered_.clear();
    return Envelope{0, std::move(*message)};
  }
  if (connector_ && !edge_->open()) {
    if (!broken_) broken_ = now;
    edge_.reset();
    connector_->begin_again(now);
  }
  return relay_ ? relay_->receive(now) : std::nullopt;
}

// Before rank 0 has said anything it may come again, as another process perhaps.
std::vector<Rank> StarLeaf::lost(Time now) {
  owner_.check();
  const bool ended = connector_ ? broken_ && now - *broken_ > kRootComesBack : edge_->lost();
  if (!ended || told_lost_) return {};
  told_lost_ = true;
  return {0};
}

void StarLeaf::cut() {
  if (edge_) edge_->channel().close();
}

}  // namespace rueda
