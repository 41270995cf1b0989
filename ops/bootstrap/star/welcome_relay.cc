// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/star/welcome_relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ranges>
#include <utility>

#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

// All ranks are there when the Welcome comes: those that still do not ask have failed. Less than the deadline
// within which the ranks meet by TCP afterwards.
constexpr auto kTimeout = std::chrono::seconds(3);

}  // namespace

WelcomeRelay::WelcomeRelay(StarMember self, StarListener listener, Duration deadline)
    : self_(std::move(self)), door_(std::move(listener), self_.size, deadline), deadline_(deadline) {}

void WelcomeRelay::follow(Rank rank, const std::string& card) {
  std::optional<TcpEndpoint> endpoint = tcp_endpoint_from(card);
  if (!endpoint)
    cannot_start(
        fmt::format("rank {} cannot read where rank {} passes the list of ranks on. Are all ranks "
                    "of one build?",
                    self_.rank, rank));
  followed_ = rank;
  connector_ =
      std::make_unique<RootConnector>(self_, address_of_endpoint(std::move(*endpoint)), deadline_, rank);
}

std::optional<Envelope> WelcomeRelay::receive(Time now) {
  take_guests();
  if (!edge_ && connector_) edge_ = connector_->step(now);
  if (!edge_) return std::nullopt;
  edge_->channel().progress();
  if (std::optional<Bytes> message = edge_->take()) {
    edge_.reset();
    connector_.reset();
    return Envelope{followed_, std::move(*message)};
  }
  if (!edge_->open()) {
    edge_.reset();
    connector_->begin_again(now);
  }
  return std::nullopt;
}

void WelcomeRelay::take_guests() {
  for (StarEdge& edge : door_.take()) {
    const std::optional<StarMember> member = star_member_from(edge.channel().introduction());
    if (!member || member->job != self_.job || member->size != self_.size) continue;
    edge.confirm();
    guests_.insert_or_assign(member->rank, std::move(edge));
  }
  for (auto& [rank, edge] : guests_) {
    if (const auto message = unsent_.find(rank); message != unsent_.end()) {
      edge.send(message->second);
      unsent_.erase(message);
    }
    edge.channel().progress();
  }
}

void WelcomeRelay::send(Rank to, Bytes bytes) { unsent_.insert_or_assign(to, std::move(bytes)); }

bool WelcomeRelay::drain(Time now) {
  take_guests();
  if (!draining_) draining_ = now;
  const auto has_unsent = [](StarEdge& edge) { return edge.open() && edge.channel().has_unsent(); };
  const bool all = unsent_.empty() && std::ranges::none_of(guests_ | std::views::values, has_unsent);
  return all || now - *draining_ > kTimeout;
}

void WelcomeRelay::wait(Duration longest) {
  if (!edge_) return connector_->wait(longest);
  PollSet set;
  edge_->watch(set);
  door_.watch(set);
  set.sleep(longest);
}

}  // namespace rueda
