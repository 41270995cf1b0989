// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/tcp_link.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

template <class Message>
std::shared_ptr<Message> make_message(Rank peer, Tag tag, std::size_t size) {
  auto message = std::make_shared<Message>();
  message->peer = peer;
  message->tag = tag;
  message->size = size;
  return message;
}

}  // namespace

TcpLink::TcpLink(Rank rank) : rank_(rank), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_)
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("rank {} cannot watch its TCP connections", rank));
}

void TcpLink::connect(Rank peer, std::vector<ConnectedRail> rails) {
  std::unique_ptr<TcpPeer>& connected = peers_[peer];
  if (!connected) connected = std::make_unique<TcpPeer>(rank_, peer, epoll_.number());
  connected->connect(std::move(rails));
}

Ticket TcpLink::post_send(Rank peer, ConstBytes bytes, Tag tag) {
  owner_.check();
  TcpPeer& to = reach(peer);
  auto message = make_message<Outgoing>(peer, tag, bytes.size());
  message->bytes = bytes;
  to.send(message);
  want_to_write(to);
  if (to.urgent()) write();
  return keep(std::move(message));
}

Ticket TcpLink::post_receive(Rank peer, MutableBytes bytes, Tag tag) {
  owner_.check();
  TcpPeer& from = reach(peer);
  auto message = make_message<Incoming>(peer, tag, bytes.size());
  message->memory = bytes;
  from.receive(message);
  want_to_write(from);
  return keep(std::move(message));
}

std::optional<std::size_t> TcpLink::done(Ticket ticket) {
  owner_.check();
  RUEDA_ASSERT(ticket < messages_.size() && messages_[ticket]);
  const TcpMessage& message = *messages_[ticket];
  TcpPeer& peer = *peers_.at(message.peer);
  if (message.over) {
    write();
  } else if (message.size <= Frame::kMostEager && ++looks_ % kOfAll != 0 && peer.has_one_rail()) {
    peer.handle(0, EPOLLIN);
    want_to_write(peer);
    write();
  } else {
    progress();
  }
  if (message.over) return give_back(ticket)->moved;
  peer.check();
  return std::nullopt;
}

void TcpLink::cancel(Ticket ticket) {
  const std::shared_ptr<TcpMessage> message = give_back(ticket);
  if (!peers_.at(message->peer)->lost()) message->cancel();
}

std::string TcpLink::silence(Rank peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? "" : found->second->silence();
}

TcpPeer& TcpLink::reach(Rank peer) {
  auto found = peers_.find(peer);
  if (found == peers_.end()) {
    if (!dialer_)
      throw std::runtime_error(fmt::format("rank {} has no TCP connection to rank {}", rank_, peer));
    found = peers_.emplace(peer, std::make_unique<TcpPeer>(rank_, peer, epoll_.number())).first;
    dialer_->want(peer, clock_now());
  }
  found->second->check();
  return *found->second;
}

Ticket TcpLink::keep(std::shared_ptr<TcpMessage> message) {
  if (free_.empty()) {
    free_.push_back(messages_.size());
    messages_.emplace_back();
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  messages_[ticket] = std::move(message);
  return ticket;
}

std::shared_ptr<TcpMessage> TcpLink::give_back(Ticket ticket) {
  free_.push_back(ticket);
  return std::move(messages_[ticket]);
}

// Reading comes first: what may be written depends on it.
void TcpLink::progress() {
  if (dialer_ && dialer_->busy()) attach_dialed();
  std::array<epoll_event, 8> events;
  const int count = ::epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[i].data.u64;
    TcpPeer& peer = *peers_.at(static_cast<Rank>(data >> 32));
    peer.handle(static_cast<std::uint32_t>(data), events[i].events);
    want_to_write(peer);
  }
  write();
}

void TcpLink::attach_dialed() {
  for (auto& [peer, rails] : dialer_->progress(clock_now())) {
    connect(peer, std::move(rails));
    want_to_write(*peers_.at(peer));
  }
}

void TcpLink::write() {
  std::erase_if(writing_, [](TcpPeer* peer) { return !peer->write(); });
}

void TcpLink::want_to_write(TcpPeer& peer) {
  if (std::ranges::find(writing_, &peer) == writing_.end()) writing_.push_back(&peer);
}

}  // namespace rueda
