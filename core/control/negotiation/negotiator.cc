// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/control/negotiation/agreement.h"

#include "core/base/operation_traits.h"

namespace rueda {

Negotiator::Negotiator(TreeNode node, Rank size, Settings settings)
    : node_(std::move(node)),
      sets_(node_, size),
      table_(node_.children.size() + 1, sets_, std::move(settings.shared_cache), *this),
      stalls_(node_, std::move(settings.stalls)),
      children_applied_(node_.children.size()) {
  ProcessSetId next_set = 1;
  for (RankSet& members : settings.process_sets) sets_.add(next_set++, std::move(members));
  if (node_.rank != 0) return;
  root_.emplace(sets_, next_set,
                RootState::Settings{.choose_backend = std::move(settings.choose_backend),
                                    .second_backend = std::move(settings.second_backend),
                                    .parameters = {settings.coordinator.fusion_threshold,
                                                   settings.coordinator.linger, settings.chunk_bytes},
                                    .coordinator = settings.coordinator,
                                    .tuning = settings.tuning,
                                    .full_join = settings.full_join});
}

CacheId Negotiator::submit(const SharedRequest& request, Time now, CacheId likely) {
  const CacheId id = table_.look_up(request, likely);
  const bool is_leaf = node_.rank != 0 && node_.children.empty();
  if (is_leaf) {  // nobody to wait for
    if (id != 0) {
      report_.ids.add(id);
    } else {
      report_.tensors.push_back({{request, RankSet::of(node_.rank)}});
    }
  } else if (id != 0) {
    table_.add_own(id, now);
  } else {
    table_.add(kSelf, {{request, RankSet::of(node_.rank)}}, now);
  }
  return id;
}

void Negotiator::depart(Time now) { leave(RankSet::of(node_.rank), now); }

void Negotiator::rest() { (root_ ? root_->rested : report_.rested).add(RankSet::of(node_.rank)); }

void Negotiator::fail(Status status) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  const Bytes bytes = encode(Failure{failure_});
  if (node_.rank != 0) outgoing_.push_back({node_.parent, bytes});
  for (Rank child : node_.children) outgoing_.push_back({child, bytes});
}

// --- Messages come in.

std::optional<Contributor> Negotiator::contributor_of(Rank rank) const {
  auto child = std::ranges::lower_bound(node_.children, rank);
  if (child == node_.children.end() || *child != rank) return std::nullopt;
  return static_cast<Contributor>(child - node_.children.begin() + 1);
}

Rank Negotiator::rank_of(Contributor contributor) const {
  return contributor == kSelf ? node_.rank : node_.children[contributor - 1];
}

void Negotiator::refuse_message(Rank from, std::string_view what) {
  fail(Status::backend_error(
      fmt::format("rank {} got {} from rank {}. Are all ranks of one build?", node_.rank, what, from)));
}

void Negotiator::receive(Rank from, ConstBytes bytes, Time now) {
  std::optional<Message> message = decode(bytes);
  if (!message) return refuse_message(from, fmt::format("{} bytes that are no message", bytes.size()));
  if (auto* failure = std::get_if<Failure>(&*message)) return fail(std::move(failure->status));
  if (node_.rank != 0 && from == node_.parent) {
    if (auto* orders = std::get_if<Orders>(&*message))
      return take_orders(std::move(*orders), Bytes(bytes.begin(), bytes.end()), now);
    if (auto* abort = std::get_if<Abort>(&*message)) return take_abort(from, std::move(*abort));
    if (auto* inquiry = std::get_if<Inquiry>(&*message)) return stalls_.take_message(from, *inquiry, now);
    if (auto* missing = std::get_if<Missing>(&*message)) return stalls_.take_message(std::move(*missing));
  }
  if (const std::optional<Contributor> child = contributor_of(from)) {
    if (auto* report = std::get_if<Report>(&*message)) return take_report(*child, std::move(*report), now);
    if (auto* abort = std::get_if<Abort>(&*message)) return take_abort(from, std::move(*abort));
    if (auto* stall = std::get_if<Stall>(&*message))
      return stalls_.take_message(from, std::move(*stall), now);
    if (auto* answer = std::get_if<Answer>(&*message))
      return stalls_.take_message(from, std::move(*answer), now);
  }
  refuse_message(from, fmt::format("a message of kind {} that is not due from there", message->index()));
}

void Negotiator::take_report(Contributor from, Report report, Time now) {
  const Rank rank = rank_of(from);
  if (report.applied > table_.applied()) return refuse_message(rank, "news of a Plan that does not exist");
  if (!table_.gave(report.ids)) return refuse_message(rank, "a cache id that was never given");
  children_applied_[from - 1] = report.applied;
  if (root_) root_->leaving = report.departed;
  table_.add(from, report.ids, now);
  for (std::vector<RequestOfRanks>& requests : report.tensors) table_.add(from, std::move(requests), now);
  // Last: once rank 0 knows of all departures, no report can be on its way any more.
  if (root_) root_->leaving = {};
  if (!report.departed.empty()) leave(report.departed, now);
  (root_ ? root_->rested : report_.rested).add(report.rested);
}

void Negotiator::leave(const RankSet& ranks, Time now) {
  if (node_.rank != 0) report_.departed.add(ranks);
  table_.depart(ranks, now);
}

// --- Time passes.

void Negotiator::tick(Time now, bool works_run) {
  if (root_ && !works_run && root_->takes_part) root_->next_area = 0;
  if (ended_ || !failure_.ok()) return;
  inspect(now);
  if (!root_) return;
  const bool all_departed = sets_.departed() == node_.subtree;
  Orders orders{root_->coordinator->call(now, table_.open_collectives() > 0), false};
  orders.end =
      all_departed && root_->rested == node_.subtree && table_.open() == 0 && root_->coordinator->idle();
  if (orders.end && tuner() != nullptr) tuner()->end();
  if (!orders.plans.empty() || orders.end) issue(std::move(orders), now);
  if (std::optional<Status> verdict = stalls_.verdict(now)) fail(std::move(*verdict));
}

// Looks a few times in each period at what is incomplete.
void Negotiator::inspect(Time now) {
  stalls_.tick(now);
  if (!stalls_.on() || table_.open() == 0 || now - inspected_.at < std::chrono::milliseconds(100)) return;
  inspected_.at = now;
  if (std::exchange(inspected_.applied, table_.applied()) != table_.applied()) inspected_.progress = now;
  table_.for_open([&](const SharedRequest& request, Time since) {
    // A rank that has joined waits as long as the others go on.
    if (request->operation == Operation::join) since = std::max(since, inspected_.progress);
    if (stalls_.overdue(since, now)) stalls_.notice(request, since, now);
  });
}

void Negotiator::notice_unmoved(const SharedRequest& request, std::uint64_t plan, Time since, Time now) {
  if (stalls_.overdue(since, now)) stalls_.notice(request, plan, since, now);
}

std::optional<Time> Negotiator::due() const {
  std::optional<Time> next = root_ ? root_->coordinator->due() : std::nullopt;
  if (const std::optional<Time> stall = stalls_.due()) next = next ? std::min(*next, *stall) : stall;
  return next;
}

std::vector<Envelope> Negotiator::take_outgoing() {
  constexpr std::uint64_t kTellEvery = 1024;  // Plans: so that the parent can forget
  if (!report_.empty() || (node_.rank != 0 && table_.applied() - told_ >= kTellEvery)) {
    told_ = report_.applied = table_.applied();
    outgoing_.push_back({node_.parent, encode(std::exchange(report_, {}))});
  }
  std::ranges::move(stalls_.take_outgoing(), std::back_inserter(outgoing_));
  return std::exchange(outgoing_, {});
}

std::vector<Negotiator::LastOne> Negotiator::take_last_ones() {
  return root_ ? std::exchange(root_->last_ones, {}) : std::vector<LastOne>();
}

// --- Every contributor has asked for something.

void Negotiator::all_have(Contributor from, Time since, Time now) {
  if (root_ && now > since) root_->last_ones.push_back({rank_of(from), now - since});
}

void Negotiator::ready(CacheId id, const SharedRequest& request, Time now) {
  stalls_.forget(*request);
  if (root_) {
    root_->coordinator->ready(request, {}, now);
  } else {
    report_.ids.add(id);
  }
}

void Negotiator::ready(Readiness& readiness, Time now) {
  const SharedRequest request = readiness.request();
  stalls_.forget(*request);
  if (!root_) return report_.tensors.push_back(readiness.take_requests());
  const ProcessSets::View& view = *sets_.find(request->process_set);
  RankSet departed = sets_.departed();
  departed.add(root_->leaving);
  if (Status status = disagreement(readiness, *view.members, departed, root_->full_join); !status.ok()) {
    root_->coordinator->refuse(request, std::move(status));
  } else if (traits(request->operation).moves_data) {
    // Whoever has joined takes part, but is not there to say what it has counted.
    root_->coordinator->ready(request, *view.members - readiness.reported(), now);
  } else {
    decide(request, now);
  }
}

// Carries out an operation that moves no data, as soon as all members have asked for it.
void Negotiator::decide(const SharedRequest& request, Time now) {
  std::int64_t result = request->root;
  if (request->operation == Operation::add_process_set) {
    if (const ProcessSetId* same = sets_.with_members(request->members)) {
      return root_->coordinator->refuse(
          request,
          Status::invalid_argument(fmt::format("{}: process set {} has the same members, {}. Use that one.",
                                               title(*request), *same, to_string(request->members))));
    }
    result = root_->next_set++;
  } else if (request->operation == Operation::remove_process_set) {
    const auto set = static_cast<ProcessSetId>(request->root);
    if (sets_.find(set) == nullptr) {
      return root_->coordinator->refuse(
          request, Status::invalid_argument(
                       fmt::format("{}: process set {} has been removed before.", title(*request), set)));
    }
    table_.count_in_full(set, now);
    if (const Readiness* open = table_.any_of(set)) {
      return root_->coordinator->refuse(
          request, Status::invalid_argument(
                       fmt::format("{}: {} is in flight, submitted by {}. Wait for it first.",
                                   title(*request), title(*open->request()), to_string(open->reported()))));
    }
  }
  Orders orders{root_->coordinator->call(now, false), false};  // what was complete before comes before
  orders.plans.push_back(root_->coordinator->decide(request, result));
  issue(std::move(orders), now);
}

}  // namespace rueda
