// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/tcp_peer.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "core/base/error.h"
#include "core/engine/work.h"
#include "ops/sockets/tcp_socket.h"

namespace rueda {
namespace {

// Bytes of one call: the background thread has other things to do.
constexpr std::size_t kAtOnce = 512 << 10;
constexpr std::size_t kAtTheEnd = 16 << 20;
// How long grants of short messages wait for a frame that takes them along: alone they cost both sides as
// much as a message.
constexpr auto kMostWait = std::chrono::milliseconds(1);
constexpr auto kQuickestFor = std::chrono::milliseconds(10);

// How long bytes take to the other side and back now, with those that queue before them.
std::uint32_t round_trip(const Descriptor& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.number(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return std::numeric_limits<std::uint32_t>::max();
  return info.tcpi_rtt;
}

std::shared_ptr<Incoming> own_buffer(const Frame& frame) {
  auto message = std::make_shared<Incoming>();
  message->own.resize(frame.length);
  message->memory = message->own;
  message->size = frame.length;
  return message;
}

}  // namespace

TcpPeer::Rail::Rail(ConnectedRail connected, std::size_t rails)
    : socket(std::move(connected.socket)), pace(rails) {
  const RailKeys& keys = connected.keys;
  if (!keys.encrypted) return;
  input.decrypt(keys.cipher, keys.data.receive);
  output.encrypt(keys.cipher, keys.data.send);
}

void TcpPeer::connect(std::vector<ConnectedRail> rails) {
  RUEDA_ASSERT(!rails.empty() && rails_.empty());
  keys_ = rails.front().keys;
  for (ConnectedRail& rail : rails) {
    rails_.emplace_back(std::move(rail), rails.size());
    watch(rails_.size() - 1, EPOLL_CTL_ADD);
  }
}

void TcpPeer::send(std::shared_ptr<Outgoing> message) {
  try {
    book_.send(std::move(message));
  } catch (const LinkFailure& failure) {
    fail(failure.words);
  }
}

void TcpPeer::receive(std::shared_ptr<Incoming> message) {
  try {
    book_.receive(std::move(message));
  } catch (const LinkFailure& failure) {
    fail(failure.words);
  }
}

void TcpPeer::handle(std::size_t rail, std::uint32_t events) {
  if (lost()) return;
  if ((events & EPOLLOUT) != 0) rails_[rail].blocked = false;
  if ((events & ~EPOLLOUT) == 0) return;
  try {
    if (!read(rails_[rail], kAtOnce)) lose();
  } catch (const LinkFailure& failure) {
    fail(failure.words);
  }
}

bool TcpPeer::write() {
  if (lost()) return false;
  if (!book_.has_control()) {
    control_since_.reset();
  } else if (!control_since_) {
    control_since_ = clock_now();
  }
  std::size_t budget = kAtOnce;
  bool more = true;
  while (more && budget > 0) {
    more = false;
    for (std::size_t i = 0, first = turn_; i < rails_.size(); ++i)
      more |= write((first + i) % rails_.size(), budget);
  }
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    if (rails_[rail].watched == rails_[rail].blocked) continue;
    rails_[rail].watched = rails_[rail].blocked;
    watch(rail, EPOLL_CTL_MOD);
  }
  const auto takes = [](const Rail& rail) { return !rail.blocked && !rail.broken; };
  return more || book_.has_control() || (book_.has_fragment() && std::ranges::any_of(rails_, takes));
}

void TcpPeer::check() const {
  if (!lost()) return;
  if (failure_->empty()) throw PeerGone{peer_};
  throw std::runtime_error(*failure_);
}

std::vector<TcpPeer::Traffic> TcpPeer::traffic() const {
  std::vector<Traffic> all;
  for (const Rail& rail : rails_) all.push_back({rail.output.bytes(), rail.input.bytes()});
  return all;
}

// Whether more may come.
bool TcpPeer::read(Rail& rail, std::size_t budget) {
  for (;;) {
    switch (rail.input.next(rail.socket.number(), budget)) {
      case RailInput::Event::header: begin_frame(rail); break;
      case RailInput::Event::body: end_frame(rail); break;
      case RailInput::Event::nothing: return true;
      case RailInput::Event::ended: return false;
      case RailInput::Event::forged:
        throw LinkFailure{
            fmt::format("rank {} received over {} bytes that rank {} has not sent: somebody changes them on "
                        "their way (found by RUEDA_ENCRYPT)",
                        rank_, own_card(rail.socket), peer_)};
    }
  }
}

void TcpPeer::begin_frame(Rail& rail) {
  const Frame& frame = rail.input.frame();
  if (const std::string problem = problem_in(frame); !problem.empty())
    throw LinkFailure{"rank " + std::to_string(rank_) + " cannot read what rank " + std::to_string(peer_) +
                      " sends: a frame " + problem + ". Both must run the same version of Rueda"};
  if (frame.kind == FrameKind::data) {
    rail.input.expect(book_.message_of(frame), frame.offset);
  } else if (frame.kind != FrameKind::grant) {
    rail.input.expect(own_buffer(frame), 0);
  }
}

void TcpPeer::end_frame(Rail& rail) {
  const Frame& frame = rail.input.frame();
  std::shared_ptr<Incoming> message = rail.input.take_message();
  switch (frame.kind) {
    case FrameKind::grant:
    case FrameKind::eager: return book_.take(frame, std::move(message));
    case FrameKind::data: return book_.arrived(frame, *message);
    case FrameKind::failure:
      throw LinkFailure{std::string(reinterpret_cast<const char*>(message->own.data()), message->own.size())};
  }
}

// One load, or what is left of one; whether another may follow at once.
bool TcpPeer::write(std::size_t at, std::size_t& budget) {
  Rail& rail = rails_[at];
  if (rail.blocked || rail.broken || budget == 0) return false;
  if (rail.output.idle()) load(at);
  if (rail.output.idle()) return false;
  const RailOutput::Result result = rail.output.write(rail.socket.number(), budget);
  rail.blocked = result == RailOutput::Result::blocked;
  rail.broken = result == RailOutput::Result::broken;
  return result == RailOutput::Result::written;
}

bool TcpPeer::control_is_due() const {
  if (!book_.has_control()) return false;
  return book_.urgent() || book_.has_fragment() || clock_now() - *control_since_ > kMostWait;
}

void TcpPeer::load(std::size_t at) {
  if (control_is_due()) {
    const std::size_t quickest = quickest_rail();
    if (at == quickest || rails_[quickest].blocked || rails_[quickest].broken) {
      rails_[at].output.load(book_.take_control());
      rails_[at].pace.pass();
    }
  }
  if (!book_.has_fragment()) return;
  if (const std::size_t room = room_of(rails_[at]); room > 0) {
    rails_[at].output.load(*book_.next_fragment(room));
    turn_ = (at + 1) % rails_.size();
  }
}

// Of the next fragment, 0: the rail holds enough. To look costs more than a short one is worth.
std::size_t TcpPeer::room_of(Rail& rail) {
  if (book_.next_bytes() <= RailWindow::kShort) {
    rail.pace.pass();
    return RailWindow::kShort;
  }
  return rail.pace.room(RailWindow::look_at(rail.socket.number()), rail.output.bytes(), clock_now());
}

std::size_t TcpPeer::quickest_rail() {
  if (rails_.size() == 1) return 0;
  const Time now = clock_now();
  if (now - quickest_at_ < kQuickestFor) return quickest_;
  quickest_at_ = now;
  const auto trip = [](const Rail& rail) { return round_trip(rail.socket); };
  quickest_ = static_cast<std::size_t>(std::ranges::min_element(rails_, {}, trip) - rails_.begin());
  return quickest_;
}

void TcpPeer::watch(std::size_t rail, int operation) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (rails_[rail].blocked) event.events |= EPOLLOUT;
  event.data.u64 = static_cast<std::uint64_t>(peer_) << 32 | rail;
  if (::epoll_ctl(epoll_, operation, rails_[rail].socket.number(), &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

// Reads all that has come over the other rails first. Afterwards nothing points into messages any more.
void TcpPeer::lose() {
  for (Rail& rail : rails_) static_cast<void>(read(rail, kAtTheEnd));
  failure_ = "";
  for (const Rail& rail : rails_) {
    const int error = rail.output.error() != 0 ? rail.output.error() : rail.input.error();
    // The other side's system says these, where its process has gone.
    if (error == 0 || error == ECONNRESET || error == EPIPE) continue;
    silence_ = fmt::format("does not answer over {} any more ({}); it may be alive", own_card(rail.socket),
                           std::generic_category().message(error));
  }
  rails_.clear();
  book_ = FlowControl(rank_, peer_);
}

// The other side hears the words, and nothing more. Sockets that are closed before all is read could lose
// them on the way: these are kept to the end.
void TcpPeer::fail(const std::string& words) {
  tell(words);
  failure_ = words;
  book_ = FlowControl(rank_, peer_);
  for (Rail& rail : rails_) {
    watch(static_cast<std::size_t>(&rail - rails_.data()), EPOLL_CTL_DEL);
    ::shutdown(rail.socket.number(), SHUT_WR);
    rail.input = {};
    rail.output = {};
  }
}

void TcpPeer::tell(const std::string& words) {
  const std::string text = words.substr(0, Frame::kMostText);
  const FrameBytes header =
      to_bytes({.kind = FrameKind::failure, .length = static_cast<std::uint32_t>(text.size())});
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
  bytes += text;
  for (Rail& rail : rails_) {
    if (!rail.output.idle() || rail.broken) continue;
    if (rail.output.send_now(rail.socket.number(), std::as_bytes(std::span(bytes)))) return;
  }
}

}  // namespace rueda
