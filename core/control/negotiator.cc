// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiator.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/control/tree.h"

namespace rueda {

Negotiator::Negotiator(Rank rank, Rank size, Settings settings)
    : rank_(rank), children_(tree::children(rank, size)), subtree_(tree::subtree(rank, size)) {
  if (rank_ != 0) return;
  Planner planner(settings.fusion_threshold, settings.chunk_bytes, std::move(settings.choose_backend));
  caller_ = std::make_unique<Caller>(std::move(planner), settings.linger, settings.fusion_threshold);
}

void Negotiator::submit(const Request& request, Time now) { count({request, RankSet::of(rank_)}, now); }

void Negotiator::depart(Time now) { leave(RankSet::of(rank_), now); }

void Negotiator::fail(Status status) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  const Bytes bytes = encode(Failure{failure_});
  if (rank_ != 0) outgoing_.push_back({tree::parent(rank_), bytes});
  for (Rank child : children_) outgoing_.push_back({child, bytes});
}

void Negotiator::receive(Rank from, ConstBytes bytes, Time now) {
  std::optional<Message> message = decode(bytes);
  if (!message) {
    fail(Status::backend_error(fmt::format(
        "rank {} got {} bytes from rank {} that are no message of this version. Are all ranks of one build?",
        rank_, bytes.size(), from)));
    return;
  }
  const bool down = std::holds_alternative<Orders>(*message) || std::holds_alternative<Failure>(*message);
  if (!is_child(from) && !(down && rank_ != 0 && from == tree::parent(rank_))) {
    fail(Status::backend_error(fmt::format(
        "rank {} got a message from rank {}, which is not its neighbour in the tree.", rank_, from)));
    return;
  }
  std::visit([&](auto& content) { take_message(from, std::move(content), now); }, *message);
}

void Negotiator::take_message(Rank, Report report, Time now) {
  for (std::vector<Wish>& wishes : report.tensors) {
    for (Wish& wish : wishes) count(std::move(wish), now);
  }
}

void Negotiator::take_message(Rank, const Departure& departure, Time now) { leave(departure.ranks, now); }

void Negotiator::take_message(Rank, Orders orders, Time) { issue(std::move(orders)); }
void Negotiator::take_message(Rank, Failure failure, Time) { fail(std::move(failure.status)); }

void Negotiator::take_message(Rank from, const Hello&, Time) {
  fail(Status::backend_error(
      fmt::format("rank {} introduced itself to rank {} after the start.", from, rank_)));
}

void Negotiator::take_message(Rank from, const Welcome&, Time) {
  fail(Status::backend_error(fmt::format("rank {} welcomed rank {} after the start.", from, rank_)));
}

void Negotiator::tick(Time now) {
  if (!caller_ || ended_ || !failure_.ok()) return;
  Orders orders{caller_->call(now, !tallies_.empty()), false};
  orders.end = departed_ == subtree_ && tallies_.empty() && caller_->idle();
  if (!orders.plans.empty() || orders.end) issue(std::move(orders));
}

std::vector<Envelope> Negotiator::take_outgoing() {
  // A departure goes last: once rank 0 knows of all departures, no report can be on its way any more.
  if (!report_.tensors.empty())
    outgoing_.push_back({tree::parent(rank_), encode(std::exchange(report_, {}))});
  if (!departure_.ranks.empty())
    outgoing_.push_back({tree::parent(rank_), encode(std::exchange(departure_, {}))});
  return std::exchange(outgoing_, {});
}

void Negotiator::count(Wish wish, Time now) {
  std::string name = wish.request.name;
  Tally& tally = tallies_[name];
  tally.add(std::move(wish));
  if (!complete(tally)) return;
  auto node = tallies_.extract(name);
  settle(node.mapped(), now);
}

void Negotiator::leave(const RankSet& ranks, Time now) {
  departed_.add(ranks);
  if (rank_ != 0) departure_.ranks.add(ranks);
  std::vector<std::string> settled;
  for (const auto& [name, tally] : tallies_) {
    if (complete(tally)) settled.push_back(name);
  }
  std::ranges::sort(settled);
  for (const std::string& name : settled) settle(tallies_.extract(name).mapped(), now);
}

bool Negotiator::complete(const Tally& tally) const {
  if (tally.reported() == subtree_) return true;
  return !departed_.empty() && (subtree_ - tally.reported() - departed_).empty();
}

// Everybody of the subtree who could report this tensor has done so.
void Negotiator::settle(const Tally& tally, Time now) {
  if (rank_ != 0) {
    report_.tensors.push_back(tally.wishes());
    return;
  }
  const Request& request = tally.request();
  const RankSet missing = subtree_ - tally.reported();
  if (!missing.empty()) {
    caller_->refuse(
        request.name,
        Status::shut_down(fmt::format(
            "{} '{}': {} shut down without it, while {} asked for it. Submit it on every rank, or on none.",
            to_string(request.operation), request.name, to_string(missing), to_string(tally.reported()))));
  } else if (!tally.agreed()) {
    caller_->refuse(request.name, tally.mismatch());
  } else {
    caller_->ready(request, now);
  }
}

// Carries out Orders here and passes them to the children.
void Negotiator::issue(Orders orders) {
  if (!children_.empty()) {
    const Bytes bytes = encode(orders);
    for (Rank child : children_) outgoing_.push_back({child, bytes});
  }
  ended_ = orders.end;
  std::ranges::move(orders.plans, std::back_inserter(plans_));
}

bool Negotiator::is_child(Rank from) const { return std::ranges::find(children_, from) != children_.end(); }

}  // namespace rueda
