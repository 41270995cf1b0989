// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/stall_inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace rueda {
namespace {

using std::chrono::milliseconds;

constexpr Duration kGather = milliseconds(250);        // more may be noticed before we ask
constexpr double kTimeout = 1.0;                       // seconds for the whole tree
constexpr double kForChildren = 0.75;                  // of a node's timeout
constexpr Duration kTogether = milliseconds(500);      // so near, stalls have one cause
constexpr std::size_t kNamed = 4;                      // ranks whose own words are passed on
constexpr Duration kForRankZero = milliseconds(1500);  // to ask about a Plan that was told
constexpr std::uint32_t kOfANode = 1u << 31;           // numbers of Inquiries that rank 0 did not begin

}  // namespace

StallInspector::StallInspector(const TreeNode& node, Settings settings)
    : node_(node), settings_(std::move(settings)) {}

bool StallInspector::overdue(Time since, Time now) const { return on() && now - since >= limit(); }

void StallInspector::notice(const SharedRequest& request, Time since, Time now) {
  auto [entry, fresh] = noticed_.try_emplace(key_of(*request));
  Noticed& noticed = entry->second;
  if (!fresh && noticed.since == since) return;
  noticed = {request, since, now + kGather};
  if (node_.rank != 0) outgoing_.push_back({node_.parent, encode(Stall{request})});
}

void StallInspector::notice(const SharedRequest& request, std::uint64_t plan, Time since, Time now) {
  Noticed& noticed = noticed_[key_of(*request)];
  if (noticed.plan == plan && since <= noticed.at) return;
  noticed = {request, since, now + kGather + timeout_with_rank_0(), plan, now};
  if (node_.rank != 0) outgoing_.push_back({node_.parent, encode(Stall{request, plan})});
}

// Trees of three levels below rank 0 have a thousand hosts.
Duration StallInspector::timeout_with_rank_0() const {
  if (node_.rank == 0) return {};
  if (node_.parent == 0) return kForRankZero;
  return node_.children.empty() ? 3 * kForRankZero : 2 * kForRankZero;
}

// Rank 0 itself may not have it at all, if no whole subtree does.
void StallInspector::take_message(Rank, Stall stall, Time now) {
  const Duration age = limit();
  if (stall.plan > 0) return notice(stall.request, stall.plan, now - age, now);
  if (node_.rank != 0) {
    outgoing_.push_back({node_.parent, encode(std::move(stall))});
    return;
  }
  auto [entry, fresh] = noticed_.try_emplace(key_of(*stall.request));
  if (fresh) entry->second = {stall.request, now - age, now + kGather};
}

void StallInspector::take_message(Rank, const Inquiry& inquiry, Time now) { begin(inquiry, false, now); }

void StallInspector::take_message(Rank from, Answer answer, Time now) {
  now_ = now;
  if (!round_ || round_->inquiry.number != answer.number ||
      answer.standings.size() != round_->standings.size() || round_->open.erase(from) == 0) {
    return;  // too late
  }
  for (std::size_t i = 0; i < answer.standings.size(); ++i) merge(round_->standings[i], answer.standings[i]);
  if (round_->open.empty()) conclude();
}

void StallInspector::take_message(Missing missing) {
  const Bytes bytes = encode(missing);
  for (const Rank child : node_.children) outgoing_.push_back({child, bytes});
  missing_.push_back(std::move(missing));
}

void StallInspector::tick(Time now) {
  now_ = now;
  if (round_ && now >= round_->until) conclude();
  if (round_ || std::ranges::none_of(noticed_, [&](auto& each) { return to_be_asked(each.second, now); }))
    return;
  Inquiry inquiry{node_.rank == 0 ? next_number_ : next_number_ | kOfANode, kTimeout, {}};
  for (auto& [key, noticed] : noticed_) {
    if (noticed.asked ? to_be_asked(noticed, now) : node_.rank == 0 || noticed.plan > 0)
      inquiry.operations.push_back({key, noticed.plan});
    if (node_.rank == 0) noticed.asked = true;
  }
  ++next_number_;
  begin(std::move(inquiry), true, now);
}

// A called Plan may be over by the time at which the job is to end. So rank 0 asks once more about that Plan.
bool StallInspector::to_be_asked(const Noticed& noticed, Time now) const {
  if (node_.rank != 0 && noticed.plan == 0) return false;
  if (!noticed.asked) return now >= noticed.asked_after;
  const bool may_end = node_.rank == 0 && noticed.plan > 0 && settings_.fail_after > Duration{};
  return may_end && !noticed.confirmed && now - noticed.since >= settings_.fail_after;
}

// A Work that has moved lately is not what others wait for.
StallInspector::OwnState StallInspector::own_state(const Asked& asked, Time now) const {
  const OwnState own = settings_.own_state ? settings_.own_state(asked) : OwnState{};
  return asked.plan > 0 && now - own.moved < limit() - kGather ? OwnState{} : own;
}

void StallInspector::begin(Inquiry inquiry, bool own_round, Time now) {
  now_ = now;
  Round& round = round_.emplace();
  round.own = own_round;
  for (const Asked& asked : inquiry.operations) {
    const auto noticed = noticed_.find(asked.key);
    if (noticed != noticed_.end() && noticed->second.plan == asked.plan) noticed->second.asked = true;
    Standing standing;
    const OwnState own = own_state(asked, now);
    if (own.member) (own.waiting ? standing.waiting : standing.missing).add(RankSet::of(node_.rank));
    standing.pauses = own.member && !own.waiting && own.pauses;
    if (own.member && (!own.waiting || asked.plan > 0)) standing.words.emplace_back(node_.rank, own.words);
    round.standings.push_back(std::move(standing));
  }
  round.until = now + from_seconds(inquiry.timeout);
  round.open = {node_.children.begin(), node_.children.end()};
  round.inquiry = std::move(inquiry);
  const Bytes bytes =
      encode(Inquiry{round.inquiry.number, round.inquiry.timeout * kForChildren, round.inquiry.operations});
  for (Rank child : node_.children) outgoing_.push_back({child, bytes});
  if (round.open.empty()) conclude();
}

void StallInspector::merge(Standing& into, const Standing& from) const {
  if (!from.missing.empty()) into.pauses = from.pauses && (into.pauses || into.missing.empty());
  into.waiting.add(from.waiting);
  into.missing.add(from.missing);
  into.silent.add(from.silent);
  into.words.insert(into.words.end(), from.words.begin(), from.words.end());
  std::ranges::sort(into.words);
  if (into.words.size() > kNamed) into.words.resize(kNamed);
}

void StallInspector::conclude() {
  for (Rank child : round_->open) {
    const auto i = std::ranges::find(node_.children, child) - node_.children.begin();
    for (Standing& standing : round_->standings) standing.silent.add(node_.child_subtrees[i]);
  }
  if (round_->own) {
    if (node_.rank != 0) {
      for (Standing& standing : round_->standings) standing.silent.add(RankSet::of(node_.parent));
    }
    put_into_words();
  } else {
    Answer answer{round_->inquiry.number, std::move(round_->standings)};
    outgoing_.push_back({node_.parent, encode(std::move(answer))});
  }
  round_.reset();
}

// Whether they say that it stalls still.
bool StallInspector::answers_matter(const Asked& asked, const Standing& standing) {
  const auto noticed = noticed_.find(asked.key);
  if (noticed == noticed_.end() || noticed->second.plan != asked.plan) return false;
  if (asked.plan == 0) return !standing.missing.empty() || !standing.silent.empty();
  // A rank that does not answer may have nothing to do with this Plan.
  if (standing.waiting.empty()) noticed_.erase(noticed);
  return !standing.waiting.empty();
}

// Operations that wait for the same ranks are one report.
void StallInspector::put_into_words() {
  struct Group {
    Standing standing;
    std::vector<Noticed*> stalled;
  };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < round_->standings.size(); ++i) {
    const Asked& asked = round_->inquiry.operations[i];
    Standing& standing = round_->standings[i];
    if (!answers_matter(asked, standing)) continue;
    auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.standing.missing == standing.missing && group.standing.silent == standing.silent &&
             (group.stalled.front()->plan > 0) == (asked.plan > 0);
    });
    if (same == groups.end()) same = groups.insert(groups.end(), {std::move(standing), {}});
    same->stalled.push_back(&noticed_.at(asked.key));
  }
  for (const auto& [standing, stalled] : groups) {
    const std::string words = words_of({stalled.begin(), stalled.end()}, standing, now_);
    if (stalled.front()->plan == 0) {
      Missing missing{{}, missing_in_words(standing)};
      for (const Noticed* each : stalled) missing.operations.push_back(key_of(*each->request));
      take_message(std::move(missing));
    }
    const bool reported = std::ranges::all_of(stalled, &Noticed::reported);
    const bool is_pause = standing.pauses && standing.silent.empty() && !reported;
    for (Noticed* each : stalled) {
      each->words = words;
      each->missing = standing.missing.count() + standing.silent.count();
      each->confirmed = settings_.fail_after > Duration{} && now_ - each->since >= settings_.fail_after;
      if (is_pause) {
        each->asked = false;
        each->asked_after = now_ + limit();
      } else {
        each->reported = settings_.report_after > Duration{};
      }
    }
    if (settings_.report_after > Duration{} && !is_pause && !reported) reports_.push_back(words);
  }
}

std::string StallInspector::words_of(const std::vector<const Noticed*>& stalled, const Standing& standing,
                                     Time now) const {
  const Noticed& first =
      **std::ranges::min_element(stalled, {}, [](const Noticed* each) { return each->since; });
  std::string words = title_of_all(*first.request);
  if (stalled.size() > 1) words += fmt::format(" and {} operations more", stalled.size() - 1);
  const double seconds = std::chrono::duration<double>(now - first.since).count();
  if (first.plan > 0) {
    words += fmt::format(" {} not moved for {:.1f} s.", stalled.size() > 1 ? "have" : "has", seconds);
  } else {
    words += fmt::format(" {} not complete after {:.1f} s.", stalled.size() > 1 ? "are" : "is", seconds);
  }
  if (!standing.waiting.empty()) words += fmt::format("\n  waiting: {}", to_string(standing.waiting));
  return words + missing_in_words(standing);
}

std::string StallInspector::missing_in_words(const Standing& standing) const {
  std::string words;
  if (!standing.missing.empty())
    words += fmt::format("\n  not submitted by: {}", to_string(standing.missing));
  for (const auto& [rank, own] : standing.words) words += fmt::format("\n  rank {}: {}", rank, own);
  if (!standing.silent.empty()) {
    words += fmt::format("\n  no answer from: {}", to_string(standing.silent));
    for (Rank i = 0; i < std::min<Rank>(kNamed, standing.silent.count()) && settings_.process_of; ++i) {
      const Rank rank = standing.silent.at(i);
      words += fmt::format("\n  rank {}: {}: stopped, or stuck in a call", rank, settings_.process_of(rank));
    }
  }
  return words;
}

std::string_view StallInspector::oldest_report() const {
  const Noticed *oldest = nullptr, *first = nullptr;
  for (const auto& [key, noticed] : noticed_)
    if (noticed.reported && (oldest == nullptr || noticed.since < oldest->since)) oldest = &noticed;
  for (const auto& [key, noticed] : noticed_) {
    if (!noticed.reported || noticed.since > oldest->since + kTogether) continue;
    if (first == nullptr ||
        std::pair(noticed.missing, noticed.since) < std::pair(first->missing, first->since))
      first = &noticed;
  }
  return first == nullptr ? std::string_view() : first->words;
}

std::optional<Status> StallInspector::verdict(Time now) const {
  if (settings_.fail_after == Duration{}) return std::nullopt;
  for (const auto& [key, noticed] : noticed_) {
    if (noticed.words.empty() || now - noticed.since < settings_.fail_after) continue;
    if (noticed.plan > 0 && !noticed.confirmed) continue;
    return Status::stalled(fmt::format("{}\nAfter {:.1f} s the job ends (RUEDA_STALL_SHUTDOWN_TIME).",
                                       noticed.words,
                                       std::chrono::duration<double>(now - noticed.since).count()));
  }
  return std::nullopt;
}

std::optional<Time> StallInspector::due() const {
  std::optional<Time> next;
  auto earlier = [&](Time time) { next = next ? std::min(*next, time) : time; };
  if (round_) earlier(round_->until);
  for (const auto& [key, noticed] : noticed_) {
    if (round_ || (node_.rank != 0 && noticed.plan == 0)) continue;
    if (!noticed.asked) earlier(noticed.asked_after);
    const bool again = noticed.asked && noticed.plan > 0 && node_.rank == 0 && !noticed.confirmed;
    if (again && settings_.fail_after > Duration{}) earlier(noticed.since + settings_.fail_after);
  }
  return next;
}

}  // namespace rueda
