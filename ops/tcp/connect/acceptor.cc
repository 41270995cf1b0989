// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/connect/acceptor.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"

namespace rueda {
namespace {

constexpr std::size_t kMostUnknown = 256;
constexpr int kAcceptedAtOnce = 64;
constexpr int kMostComplaints = 5;
// Connections of one card of a peer that have not settled on a rail.
constexpr std::ptrdiff_t kMostUnsettled = 16;

}  // namespace

TcpAcceptor::TcpAcceptor(Rank rank, const TcpSecret& secret, std::span<const Descriptor> listeners,
                         RankSet expected, Duration timeout, bool encrypted)
    : rank_(rank),
      secret_(secret),
      listeners_(listeners),
      expected_(std::move(expected)),
      timeout_(timeout),
      encrypted_(encrypted) {}

void TcpAcceptor::step(Time now) {
  for (std::size_t card = 0; card < listeners_.size(); ++card) accept(card, now);
  std::erase_if(guests_, [&](Guest& guest) {
    if (!hear(guest)) return true;
    if (guest.known || now - guest.since <= timeout_) return !guest.socket;
    complain(guest, "said nothing");
    return true;
  });
}

std::map<Rank, std::vector<ConnectedRail>> TcpAcceptor::take_complete() {
  std::map<Rank, std::vector<ConnectedRail>> complete;
  for (auto each = rails_.begin(); each != rails_.end();) {
    const auto next = std::next(each);
    if (here_.contains(each->first)) complete.insert(rails_.extract(each));
    each = next;
  }
  return complete;
}

void TcpAcceptor::watch(std::vector<pollfd>& sockets) const {
  for (const Descriptor& listener : listeners_) sockets.push_back({listener.number(), POLLIN, 0});
  for (const Guest& guest : guests_) sockets.push_back({guest.socket.number(), POLLIN, 0});
}

void TcpAcceptor::accept(std::size_t card, Time now) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    Descriptor socket(::accept4(listeners_[card].number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    Guest& guest = guests_.emplace_back();
    guest.socket = std::move(socket);
    guest.card = card;
    guest.since = now;
    if (std::cmp_less_equal(std::ranges::count(guests_, false, &Guest::known), kMostUnknown)) continue;
    const auto eldest = std::ranges::find(guests_, false, &Guest::known);
    complain(*eldest, "said nothing");
    guests_.erase(eldest);
  }
}

bool TcpAcceptor::hear(Guest& guest) {
  if (!guest.known && !hear_hello(guest)) return false;
  if (!guest.known) return true;
  switch (guest.settled.read(guest.socket)) {
    case BlockReader<Settled>::Came::not_yet: return true;
    case BlockReader<Settled>::Came::never: return false;  // not one of the rails
    case BlockReader<Settled>::Came::all: return keep(guest);
  }
  return false;
}

bool TcpAcceptor::hear_hello(Guest& guest) {
  switch (guest.hello.read(guest.socket)) {
    case BlockReader<TcpHello>::Came::not_yet: return true;
    case BlockReader<TcpHello>::Came::never: complain(guest, "left without a word"); return false;
    case BlockReader<TcpHello>::Came::all: break;
  }
  const TcpHello hello = guest.hello.block();
  if (!proves(hello, secret_) || hello.to != rank_ || hello.to_card != guest.card ||
      !expected_.contains(hello.from) || here_.contains(hello.from)) {
    complain(guest, "did not prove that it belongs to this job");
    return false;
  }
  limit_repetitions(hello);
  guest.known = true;
  const ExchangeKeys exchange = random_exchange_keys();
  const TcpAnswer answer = answer_to(hello, secret_, exchange.open, encrypted_);
  const std::optional<RailKeys> keys = keys_of(HandshakeSide::listening, hello, answer, secret_, exchange);
  if (!keys) return false;
  guest.keys = *keys;
  return send_block(guest.socket, answer);
}

// The guest becomes a rail.
bool TcpAcceptor::keep(Guest& guest) {
  const Rank from = guest.hello.block().from;
  const Settled settled = guest.settled.block();
  if (!proves(settled, guest.keys)) {
    complain(guest, "repeats words of a rank");
    return false;
  }
  const auto [rail, count, proof] = settled;
  std::vector<ConnectedRail>& rails = rails_[from];
  if (rails.empty() && count <= listeners_.size()) rails.resize(count);
  if (rails.size() != count || rail >= count || rails[rail].socket) {
    complain(guest, "wants to be a rail that cannot be");
    return false;
  }
  rails[rail] = {std::move(guest.socket), guest.keys};
  if (std::ranges::all_of(rails, [](const ConnectedRail& each) { return static_cast<bool>(each.socket); }))
    here_.add(RankSet::of(from));
  return true;
}

// Somebody may repeat a hello that he has overheard, before or after the rank that made it; only that rank
// can settle. It does so soon, so the eldest of too many goes.
void TcpAcceptor::limit_repetitions(const TcpHello& hello) {
  const auto is_same = [&](const Guest& guest) {
    if (!guest.known) return false;
    const TcpHello other = guest.hello.block();
    return other.from == hello.from && other.to_card == hello.to_card;
  };
  if (std::ranges::count_if(guests_, is_same) < kMostUnsettled) return;
  std::ranges::find_if(guests_, is_same)->socket.close();
}

void TcpAcceptor::complain(const Guest& guest, const std::string& what) {
  if (++complaints_ > kMostComplaints) return;
  SocketAddress from;
  from.length = sizeof from.storage;
  ::getpeername(guest.socket.number(), reinterpret_cast<sockaddr*>(&from.storage), &from.length);
  log(LogLevel::warning, "rank {}: closed a TCP connection from {} that {}", rank_, in_digits(from), what);
}

}  // namespace rueda
