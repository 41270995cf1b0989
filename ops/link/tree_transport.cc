// SPDX-License-Identifier: Apache-2.0
#include "ops/link/tree_transport.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

// The last byte of what travels by `far`.
constexpr std::byte kMessage{0};
constexpr std::byte kWord{1};

constexpr std::byte kNear{1};
constexpr std::byte kFar{0};
constexpr std::byte kComplete{3};  // from a leader to rank 0, no other word

// While nothing is to come by `far`, its pending sends move on only at each look.
constexpr auto kLookFarEvery = std::chrono::milliseconds(20);
// The same for `near` in a sleep that waits for `far`.
constexpr auto kLookNearEvery = std::chrono::milliseconds(1);

}  // namespace

TreeTransport::TreeTransport(Rank rank, std::unique_ptr<Transport> far, std::unique_ptr<Transport> near)
    : rank_(rank), far_(std::move(far)), near_(std::move(near)) {}

void TreeTransport::connect(const Host& host) {
  owner_.check();
  host_ = host;
  const Rank leader = host.ranks.front();
  if (host.mapped == host.ranks && host.ready) {
    reach_ = Reach::all;
  } else if (std::ranges::find(host.mapped, leader) != host.mapped.end()) {
    reach_ = Reach::leader;
  }
  if (rank_ != leader) {
    edges_[leader];
    send_far(leader, {static_cast<std::byte>(reach_)}, kWord);
  } else {
    for (Rank rank : host.ranks) {
      if (rank != leader) edges_[rank];
    }
  }
  for (const auto& [from, word] : std::exchange(early_, {})) take_word(from, word);
  tell_if_complete();
}

// Takes the word of an edge's other end: a member tells its reach, the leader tells the edge's way.
void TreeTransport::take_word(Rank from, std::byte word) {
  if (!host_) {
    early_.emplace_back(from, word);
    return;
  }
  const auto edge = edges_.find(from);
  if (edge == edges_.end() && rank_ == 0 && word == kComplete) complete_.insert(from);
  if (edge == edges_.end() || edge->second.way != Way::undecided) return;
  if (from == host_->ranks.front()) {
    decide(from, word == kNear ? Way::near : Way::far);
    return;
  }
  const bool reached = std::ranges::find(host_->mapped, from) != host_->mapped.end();
  if (word <= static_cast<std::byte>(Reach::all)) edge->second.reach = static_cast<Reach>(word);
  const bool near = reached && edge->second.reach != Reach::not_the_leader;
  send_far(from, {near ? kNear : kFar}, kWord);
  decide(from, near ? Way::near : Way::far);
  tell_if_complete();
}

void TreeTransport::decide(Rank peer, Way way) {
  Edge& edge = edges_.at(peer);
  edge.way = way;
  if (way == Way::near) ++near_edges_;
  for (Bytes& bytes : std::exchange(edge.held, {})) send(peer, std::move(bytes));
}

bool TreeTransport::host_complete() const {
  return host_ && reach_ == Reach::all && rank_ == host_->ranks.front() &&
         std::ranges::all_of(edges_, [](const auto& edge) {
           return edge.second.way == Way::near && edge.second.reach == Reach::all;
         });
}

void TreeTransport::tell_if_complete() {
  if (told_complete_ || rank_ == 0 || !host_complete()) return;
  told_complete_ = true;
  send_far(0, {kComplete}, kWord);
}

// A member has one edge in the tree, to its leader. A leader has others, to leaders elsewhere, unless all
// ranks are here.
bool TreeTransport::rings_doorbell() const {
  return host_ && (host_->everybody || rank_ != host_->ranks.front()) && near_edges_ == edges_.size();
}

void TreeTransport::send(Rank to, Bytes bytes) {
  owner_.check();
  const auto edge = edges_.find(to);
  if (edge == edges_.end() || edge->second.way == Way::far) {
    send_far(to, std::move(bytes), kMessage);
  } else if (edge->second.way == Way::near) {
    near_->send(to, std::move(bytes));
  } else {
    edge->second.held.push_back(std::move(bytes));
  }
}

void TreeTransport::send_far(Rank to, Bytes bytes, std::byte kind) {
  bytes.push_back(kind);
  far_->send(to, std::move(bytes));
}

std::optional<Envelope> TreeTransport::receive() {
  owner_.check();
  if (std::optional<Envelope> envelope = near_->receive()) return envelope;
  return std::exchange(far_is_due_, false) || !rings_doorbell() ? receive_far() : std::nullopt;
}

std::optional<Envelope> TreeTransport::receive_far() {
  while (std::optional<Envelope> envelope = far_->receive()) {
    Bytes& bytes = envelope->bytes;
    const std::byte kind = bytes.empty() ? kMessage : bytes.back();
    if (!bytes.empty()) bytes.pop_back();
    if (kind != kWord) return envelope;
    if (bytes.size() == 1) take_word(envelope->peer, bytes.front());
  }
  return std::nullopt;
}

bool TreeTransport::wait(Duration longest) {
  owner_.check();
  return far_->wait(near_edges_ == 0 ? longest : std::min<Duration>(longest, kLookNearEvery));
}

std::vector<Rank> TreeTransport::lost(Time now) {
  std::vector<Rank> lost = near_->lost(now);
  const bool near_sees_all = rings_doorbell() && host_->everybody;
  if (!near_sees_all) std::ranges::copy(far_->lost(now), std::back_inserter(lost));
  std::erase_if(lost, [&](Rank rank) { return !told_lost_.insert(rank).second; });
  if (now - looked_far_ >= kLookFarEvery) {
    looked_far_ = now;
    far_is_due_ = true;
  }
  return lost;
}

}  // namespace rueda
