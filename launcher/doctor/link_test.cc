// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/link_test.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "launcher/doctor/link_stream.h"
#include "launcher/protocol/listener.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMagic = 0x4b4c4452;  // "RDLK"
constexpr std::size_t kMostGuests = 1024;
constexpr std::uint32_t kMostEchoes = 64;
constexpr std::uint32_t kMostMilliseconds = 10'000;
constexpr auto kEchoTime = 200ms;  // for all round trips
constexpr auto kEchoTimeout = 1s;
constexpr auto kAnswerTimeout = 5s;
constexpr auto kStep = 100ms;             // between looks at those that connect to this host
constexpr auto kPause = 20ms;             // without room for a stranger
constexpr auto kFirstTimeout = 300ms;     // with each of them
constexpr std::size_t kMostOthers = 512;  // attempts with cards of other numbers

static_assert(sizeof(LinkGreeting) == 16 + sizeof(Nonce) + sizeof(Proof) && sizeof(LinkCommand) == 8);

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Over all but itself; `theirs`: the nonce that it answers.
Proof proof_of(const LinkGreeting& greeting, const AuthenticationKey& key, const Nonce& theirs) {
  return prove(key, {bytes_of(greeting.magic), bytes_of(greeting.host), bytes_of(greeting.to),
                     bytes_of(greeting.card), std::span(greeting.nonce), std::span(theirs)});
}

// Never blocks. 1: there is something; 0: the end; -1: an error, in errno.
template <std::size_t size>
int read_into(const Descriptor& socket, std::array<std::byte, size>& block, std::size_t wanted,
              std::size_t& count) {
  while (count < wanted) {
    const ssize_t came = ::recv(socket.number(), block.data() + count, wanted - count, MSG_DONTWAIT);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return static_cast<int>(came);
    count += static_cast<std::size_t>(came);
  }
  return 1;
}

bool is_for_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINPROGRESS; }

template <class Value, std::size_t size>
Value value_in(const std::array<std::byte, size>& block) {
  Value value;
  std::memcpy(&value, block.data(), sizeof value);
  return value;
}

std::optional<Endpoint> endpoint_of(const agents::CardFacts& card, std::int32_t port) {
  // The reader of addresses takes no port 0, which bind() needs.
  std::vector<Endpoint> found = endpoints_from(fmt::format("{},{}", port == 0 ? 1 : port, card.address));
  if (found.empty()) return std::nullopt;
  if (port == 0) reinterpret_cast<sockaddr_in*>(&found.front().address)->sin_port = 0;
  return found.front();
}

// A socket at the card's address.
Descriptor socket_at(const agents::CardFacts& card) {
  const std::optional<Endpoint> at = endpoint_of(card, 0);
  if (!at) return errno = EINVAL, Descriptor();
  Descriptor socket(::socket(at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket && ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&at->address), at->length) == 0)
    return socket;
  return {};
}

std::int32_t port_of(const Descriptor& socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&bound), &length);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

// Round trips in nanoseconds, in order; nothing where the other side does not answer.
std::vector<std::uint64_t> round_trips(const Descriptor& socket) {
  using Clock = LinkTest::Clock;
  LinkCommand command{LinkCommand::Kind::echo, kMostEchoes};
  const auto begin = Clock::now();
  std::vector<std::uint64_t> all;
  while (command.count > 0 && (all.size() < 3 || Clock::now() < begin + kEchoTime)) {
    std::array<std::byte, sizeof command> back{};
    const auto sent = Clock::now();
    if (!send_all(socket, bytes_of(command), sent + kEchoTimeout) ||
        !receive_all(socket, back, sent + kEchoTimeout))
      return {};
    all.push_back(static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - sent).count()));
    --command.count;
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace

void LinkTest::listen(std::vector<agents::CardFacts>& cards) {
  listening_.clear();
  for (agents::CardFacts& card : cards) {
    Descriptor& socket = listening_.emplace_back(socket_at(card));
    if (socket && ::listen(socket.number(), SOMAXCONN) != 0) socket.close();
    card.port = socket ? port_of(socket) : 0;
  }
  cards_ = cards;
}

void LinkTest::add_to(std::vector<pollfd>& waits) const {
  for (const Descriptor& socket : listening_)
    if (socket && Clock::now() >= next_accept_) waits.push_back({socket.number(), POLLIN, 0});
  for (const Guest& guest : guests_) waits.push_back({guest.socket.number(), POLLIN, 0});
}

int LinkTest::timeout() const {
  auto next = Clock::time_point::max();
  if (next_accept_ > Clock::now()) next = next_accept_;
  const auto stranger = std::ranges::find(guests_, false, &Guest::is_known);
  if (stranger != guests_.end()) next = std::min(next, stranger->deadline);
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

void LinkTest::serve() {
  accept();
  const auto now = Clock::now();
  std::erase_if(guests_,
                [&](Guest& guest) { return !hear(guest) || (!guest.is_known && guest.deadline <= now); });
}

// One that has just come is no stranger yet: many hosts may come at one time, and wait meanwhile.
bool LinkTest::drop_stranger() {
  const auto stranger = std::ranges::find(guests_, false, &Guest::is_known);
  if (stranger == guests_.end() || stranger->deadline - kStrangerTimeout + kFirstTimeout > Clock::now())
    return false;
  guests_.erase(stranger);
  return true;
}

void LinkTest::accept() {
  if (Clock::now() < next_accept_) return;
  const auto is_full = [this] {
    return std::cmp_greater_equal(std::ranges::count(guests_, false, &Guest::is_known), kMostStrangers);
  };
  for (const Descriptor& listening : listening_) {
    for (std::size_t taken = 0; listening && taken < kMostStrangers; ++taken) {
      if (is_full() && !drop_stranger()) return void(next_accept_ = Clock::now() + kPause);
      Descriptor socket(::accept4(listening.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const bool is_out = !socket && (errno == EMFILE || errno == ENFILE);
      if (is_out && !drop_stranger()) return void(next_accept_ = Clock::now() + kPause);
      if (!socket) break;
      prepare_for_measurement(socket);
      if (guests_.size() >= kMostGuests) continue;
      Guest& guest = guests_.emplace_back();
      guest.socket = std::move(socket);
      guest.deadline = Clock::now() + kStrangerTimeout;
      guest.nonce = random_nonce();
      send_all(guest.socket, std::span<const std::byte>(guest.nonce), Clock::now());
    }
  }
}

bool LinkTest::hear(Guest& guest) {
  const std::size_t wanted = guest.is_known ? sizeof(LinkCommand) : sizeof(LinkGreeting);
  const int came = read_into(guest.socket, guest.block, wanted, guest.count);
  if (came == 0 || (came < 0 && !is_for_later())) return false;
  if (came < 0) return true;
  guest.count = 0;
  return guest.is_known ? obey(guest, value_in<LinkCommand>(guest.block)) : welcome(guest);
}

bool LinkTest::welcome(Guest& guest) const {
  const auto greeting = value_in<LinkGreeting>(guest.block);
  if (greeting.magic != kMagic || greeting.to != host_ ||
      !same(greeting.proof, proof_of(greeting, key_, guest.nonce)))
    return false;
  LinkGreeting answer{kMagic, host_, greeting.host, greeting.card, random_nonce(), {}};
  answer.proof = proof_of(answer, key_, greeting.nonce);
  guest.is_known = true;
  return send_all(guest.socket, bytes_of(answer), Clock::now() + kEchoTimeout);
}

bool LinkTest::obey(const Guest& guest, const LinkCommand& command) {
  const std::chrono::milliseconds time(std::min(command.count, kMostMilliseconds));
  const auto send = [&](const auto& value) {
    return send_all(guest.socket, bytes_of(value), Clock::now() + kEchoTimeout);
  };
  switch (command.kind) {
    case LinkCommand::Kind::echo: return send(command);
    case LinkCommand::Kind::take: return send(receive_for(guest.socket, time).value_or(std::uint64_t{0}));
    case LinkCommand::Kind::give: return send_for(guest.socket, time);
  }
  return false;
}

LinkTest::Attempt LinkTest::begin(int host, int card, int peer_card, const agents::CardFacts& theirs) const {
  Attempt attempt;
  attempt.about = {host, card, peer_card, ""};
  attempt.nonce = random_nonce();
  const auto fail = [&](std::string why) {
    attempt.about.problem = std::move(why);
    attempt.stage = Attempt::Stage::over;
  };
  const std::optional<Endpoint> there = endpoint_of(theirs, theirs.port);
  if (theirs.port == 0 || !there) return fail("nothing can listen there"), std::move(attempt);
  attempt.socket = socket_at(cards_[static_cast<std::size_t>(card)]);
  if (!attempt.socket)
    return fail(fmt::format("this card's own address cannot be used: {}", std::strerror(errno))),
           std::move(attempt);
  prepare_for_measurement(attempt.socket);
  const auto* address = reinterpret_cast<const sockaddr*>(&there->address);
  if (::connect(attempt.socket.number(), address, there->length) != 0 && !is_for_later())
    fail(std::strerror(errno));
  return attempt;
}

void LinkTest::note_connection(Attempt& attempt) const {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(attempt.socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
  attempt.stage = error == 0 ? Attempt::Stage::waiting_for_nonce : Attempt::Stage::over;
  if (error != 0) attempt.about.problem = std::strerror(error);
}

void LinkTest::greet(Attempt& attempt) const {
  const int came = read_into(attempt.socket, attempt.block, sizeof(Nonce), attempt.count);
  if (came < 0 && is_for_later()) return;
  attempt.count = 0;
  LinkGreeting greeting{kMagic, host_, attempt.about.host, attempt.about.card, attempt.nonce, {}};
  greeting.proof = proof_of(greeting, key_, value_in<Nonce>(attempt.block));
  const bool sent = came > 0 && send_all(attempt.socket, bytes_of(greeting), Clock::now() + kEchoTimeout);
  attempt.stage = sent ? Attempt::Stage::waiting_for_greeting : Attempt::Stage::over;
  if (!sent) attempt.about.problem = "the connection has ended";
}

void LinkTest::hear_greeting(Attempt& attempt) const {
  const int came = read_into(attempt.socket, attempt.block, attempt.block.size(), attempt.count);
  if (came < 0 && is_for_later()) return;
  attempt.stage = Attempt::Stage::over;
  const auto answer = value_in<LinkGreeting>(attempt.block);
  const bool is_right = came > 0 && answer.magic == kMagic && answer.host == attempt.about.host &&
                        answer.to == host_ && same(answer.proof, proof_of(answer, key_, attempt.nonce));
  if (!is_right)
    attempt.about.problem = came < 0 ? std::strerror(errno) : "something else than that host answers there";
}

void LinkTest::advance(Attempt& attempt) const {
  switch (attempt.stage) {
    case Attempt::Stage::connecting: return note_connection(attempt);
    case Attempt::Stage::waiting_for_nonce: return greet(attempt);
    case Attempt::Stage::waiting_for_greeting: return hear_greeting(attempt);
    case Attempt::Stage::over: return;
  }
}

// Each card with that of the same number.
std::vector<LinkTest::Attempt> LinkTest::first_attempts(const agents::ReachHosts& peers) const {
  std::vector<Attempt> attempts;
  for (const agents::PeerCards& peer : peers.peers) {
    const std::size_t cards = std::min(cards_.size(), peer.cards.size());
    for (std::size_t card = 0; card < cards; ++card) {
      const auto number = static_cast<int>(card);
      attempts.push_back(begin(peer.host, number, number, peer.cards[card]));
    }
  }
  return attempts;
}

// Each card without a connection with all others of that host that are free, at once.
std::vector<LinkTest::Attempt> LinkTest::other_attempts(const agents::ReachHosts& peers,
                                                        const std::vector<Attempt>& first) const {
  std::vector<Attempt> attempts;
  for (const agents::PeerCards& peer : peers.peers) {
    const auto is_connected = [&](std::size_t number, int agents::ReachedCard::*card) {
      return std::ranges::any_of(first, [&](const Attempt& each) {
        return each.is_good() && each.about.host == peer.host && std::cmp_equal(each.about.*card, number);
      });
    };
    for (std::size_t card = 0; card < cards_.size(); ++card)
      for (std::size_t i = 0; i < peer.cards.size() && attempts.size() < kMostOthers; ++i) {
        const std::size_t other = (card + i) % peer.cards.size();
        if (other == card || is_connected(card, &agents::ReachedCard::card) ||
            is_connected(other, &agents::ReachedCard::peer_card))
          continue;
        attempts.push_back(
            begin(peer.host, static_cast<int>(card), static_cast<int>(other), peer.cards[other]));
      }
  }
  return attempts;
}

// Until all are over, or the time is.
void LinkTest::finish(std::vector<Attempt>& attempts) {
  const auto until = Clock::now() + kConnectTimeout;
  while (Clock::now() < until && !std::ranges::all_of(attempts, &Attempt::over)) {
    std::vector<pollfd> waits;
    for (const Attempt& attempt : attempts)
      waits.push_back({attempt.over() ? -1 : attempt.socket.number(),
                       static_cast<short>(attempt.stage == Attempt::Stage::connecting ? POLLOUT : POLLIN),
                       0});
    add_to(waits);
    ::poll(waits.data(), waits.size(), static_cast<int>(std::chrono::milliseconds(kStep).count()));
    for (std::size_t i = 0; i < attempts.size(); ++i)
      if (waits[i].revents != 0) advance(attempts[i]);
    serve();
  }
  for (Attempt& attempt : attempts) {
    if (!attempt.over())
      attempt.about.problem = fmt::format("no answer within {} s", kConnectTimeout.count());
    attempt.stage = Attempt::Stage::over;
    if (!attempt.about.problem.empty()) attempt.socket.close();
  }
}

agents::Reached LinkTest::reach(const agents::ReachHosts& peers) {
  links_.clear();
  std::vector<Attempt> first = first_attempts(peers);
  finish(first);
  std::vector<Attempt> others = other_attempts(peers, first);
  finish(others);
  agents::Reached reached;
  std::set<std::pair<int, int>> taken;  // cards of others, by host
  for (std::vector<Attempt>* attempts : {&first, &others})
    for (Attempt& attempt : *attempts) {
      const agents::ReachedCard& about = attempt.about;
      const auto known = std::ranges::find_if(reached.cards, [&](const agents::ReachedCard& each) {
        return each.host == about.host && each.card == about.card;
      });
      const bool is_new = known == reached.cards.end();
      const bool is_chosen = attempt.is_good() && !links_.contains({about.host, about.card}) &&
                             taken.insert({about.host, about.peer_card}).second;
      if (!is_chosen && (!is_new || attempt.is_good())) continue;
      if (is_chosen) links_[{about.host, about.card}] = std::move(attempt.socket);
      if (is_new)
        reached.cards.push_back(about);
      else
        *known = about;
    }
  return reached;
}

agents::LinkMeasured LinkTest::measure(const agents::MeasureLink& wanted) {
  agents::LinkMeasured measured{wanted.host, wanted.card, 0, 0, 0, ""};
  const auto fail = [&](std::string_view why) {
    measured.problem = why;
    links_.erase({wanted.host, wanted.card});  // it may be in the middle of something
    return measured;
  };
  const auto found = links_.find({wanted.host, wanted.card});
  if (found == links_.end()) return fail("there is no connection");
  const Descriptor& socket = found->second;
  const auto ask = [&](LinkCommand::Kind kind) {
    const LinkCommand command{kind, static_cast<std::uint32_t>(wanted.milliseconds)};
    return send_all(socket, bytes_of(command), Clock::now() + kEchoTimeout);
  };
  const std::chrono::milliseconds time(wanted.milliseconds);
  const std::vector<std::uint64_t> trips = round_trips(socket);
  if (trips.empty()) return fail("it has stopped answering");
  measured.round_trip = trips[trips.size() / 2];
  std::array<std::byte, sizeof measured.sent> rate{};
  if (!ask(LinkCommand::Kind::take) || !send_for(socket, time) ||
      !receive_all(socket, rate, Clock::now() + kAnswerTimeout))
    return fail("it has stopped taking bytes");
  measured.sent = std::bit_cast<std::uint64_t>(rate);
  const std::optional<std::uint64_t> back =
      ask(LinkCommand::Kind::give) ? receive_for(socket, time) : std::nullopt;
  if (!back || measured.sent == 0) return fail("it has stopped sending bytes");
  measured.received = *back;
  return measured;
}

}  // namespace rueda
