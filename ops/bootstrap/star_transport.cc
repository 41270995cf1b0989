// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/star_transport.h"

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

constexpr auto kGreeting = 5s;            // a guest may take to prove itself
constexpr auto kComeBack = 2s;            // during the start, for a rank whose connection has ended
constexpr auto kRootComesBack = 5s;       // the same, for rank 0
constexpr auto kFarewells = 2s;           // at the end of the job
constexpr auto kLastWords = 300ms;        // after a failure
constexpr auto kBetweenLooks = 20ms;      // for lost ranks
constexpr auto kLongestSleep = 10ms;      // at the end of the job
constexpr std::size_t kMostGuests = 256;  // who have not proved themselves, besides the ranks that are due
constexpr int kGuestsAtOnce = 64;

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
      listener_(std::move(listener)),
      address_(std::move(address)),
      deadline_(deadline) {
  address_->publish(listener_.endpoint);
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
      obstacle_ = address_->settled() ? "" : address_->in_words();
      accept_guests();
      greet_guests();
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

// Where there is an obstacle it is looked at again soon, and no descriptor tells of its end.
bool StarRoot::wait(Duration longest) {
  owner_.check();
  if (!obstacle_.empty()) return false;
  if (!arrived_.empty()) return true;
  PollSet set;
  for (const Descriptor& listener : listener_.sockets) set.add(listener.number());
  for (const Guest& guest : guests_) guest.edge.watch(set);
  for (const auto& [rank, edge] : edges_) edge.watch(set);
  set.sleep(longest);
  return true;
}

void StarRoot::accept_guests() {
  static thread_local std::minstd_rand random(std::random_device{}());
  const std::size_t most = kMostGuests + static_cast<std::size_t>(self_.size);
  for (const Descriptor& listener : listener_.sockets) {
    for (int i = 0; i < kGuestsAtOnce; ++i) {
      Descriptor socket(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno == EMFILE || errno == ENFILE)
          obstacle_ = "rank 0 cannot take connections: " + std::generic_category().message(errno) +
                      "; raise ulimit -n";
        break;
      }
      leave_bbr(socket);
      prepare_for_data(socket, deadline_);
      guests_.push_back(
          {StarEdge(SecureChannel::accept(std::move(socket), listener_.endpoint.secret, StarEdge::kLongest)),
           clock_now()});
      // Whoever floods the port has most of them.
      if (guests_.size() > most)
        guests_.erase(std::next(guests_.begin(), static_cast<std::ptrdiff_t>(random() % guests_.size())));
    }
  }
}

void StarRoot::greet_guests() {
  const Time now = clock_now();
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    guest->edge.channel().progress();
    const bool greeting = guest->edge.channel().state() == SecureChannel::State::greeting;
    if (greeting && now - guest->since < kGreeting) {
      ++guest;
      continue;
    }
    if (guest->edge.open()) seat(std::move(guest->edge));
    guest = guests_.erase(guest);
  }
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
  listener_.sockets.clear();
  guests_.clear();
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

StarLeaf::StarLeaf(StarMember self, std::unique_ptr<RootAddress> address, Duration deadline)
    : connector_(std::make_unique<RootConnector>(std::move(self), std::move(address), deadline)) {}

StarLeaf::~StarLeaf() {
  if (edge_) end(std::span(&*edge_, 1), in_order_);
}

void StarLeaf::send(Rank to, Bytes bytes) {
  owner_.check();
  RUEDA_ASSERT(to == 0);
  if (edge_) edge_->send(bytes);
  if (connector_) unanswered_.push_back(std::move(bytes));
}

bool StarLeaf::drain() {
  owner_.check();
  if (!edge_) return true;
  edge_->channel().progress();
  return !edge_->open() || !edge_->channel().has_unsent();
}

bool StarLeaf::wait(Duration longest) {
  owner_.check();
  if (!edge_ && connector_) {
    connector_->wait(longest);
  } else {
    PollSet set;
    if (edge_) edge_->watch(set);
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
  return std::nullopt;
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
