// SPDX-License-Identifier: Apache-2.0
#include "core/control/stall_inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace rueda {
namespace {

using std::chrono::milliseconds;

constexpr Duration kGather = milliseconds(250);  // more may be noticed before we ask
constexpr double kPatience = 1.0;                // seconds for the whole tree
constexpr double kForChildren = 0.75;            // of a node's patience
constexpr std::size_t kNamed = 4;                // missing ranks whose own words are passed on

}  // namespace

StallInspector::StallInspector(const TreeNode& node, Settings settings)
    : node_(node), settings_(std::move(settings)) {}

bool StallInspector::overdue(Time since, Time now) const {
  const Duration limit = settings_.report_after > Duration{} ? settings_.report_after : settings_.fail_after;
  return on() && now - since >= limit;
}

void StallInspector::notice(const SharedRequest& request, Time since, Time now) {
  auto [place, fresh] = noticed_.try_emplace(key_of(*request));
  Noticed& noticed = place->second;
  if (!fresh && noticed.since == since) return;
  noticed = {request, since, now + kGather, false, {}};
  if (node_.rank != 0) outgoing_.push_back({node_.parent, encode(Stall{request})});
}

// Rank 0 itself may not have it at all, if no whole subtree does.
void StallInspector::take_message(Rank, Stall stall, Time now) {
  if (node_.rank != 0) {
    outgoing_.push_back({node_.parent, encode(std::move(stall))});
    return;
  }
  const Duration age = std::max(settings_.report_after, Duration{});
  auto [place, fresh] = noticed_.try_emplace(key_of(*stall.request));
  if (fresh) place->second = {stall.request, now - age, now + kGather, false, {}};
}

void StallInspector::take_message(Rank, const Inquiry& inquiry, Time now) { begin(inquiry, now); }

void StallInspector::take_message(Rank from, Answer answer, Time now) {
  now_ = now;
  if (!round_ || round_->inquiry.number != answer.number ||
      answer.standings.size() != round_->standings.size() || round_->open.erase(from) == 0) {
    return;  // too late
  }
  for (std::size_t i = 0; i < answer.standings.size(); ++i) merge(round_->standings[i], answer.standings[i]);
  if (round_->open.empty()) conclude();
}

void StallInspector::tick(Time now) {
  now_ = now;
  if (round_ && now >= round_->until) conclude();
  if (node_.rank != 0 || round_) return;
  Inquiry inquiry{next_number_, kPatience, {}};
  const bool any = std::ranges::any_of(
      noticed_, [&](const auto& each) { return !each.second.asked && now >= each.second.asked_after; });
  if (!any) return;
  for (auto& [key, noticed] : noticed_) {
    if (std::exchange(noticed.asked, true)) continue;
    inquiry.keys.push_back(key);
  }
  ++next_number_;
  begin(std::move(inquiry), now);
}

void StallInspector::begin(Inquiry inquiry, Time now) {
  now_ = now;
  Round& round = round_.emplace();
  for (const Key& key : inquiry.keys) {
    Standing standing;
    const OwnState own = settings_.own_state ? settings_.own_state(key) : OwnState{};
    if (own.member) (own.waiting ? standing.waiting : standing.missing).add(RankSet::of(node_.rank));
    if (own.member && !own.waiting) standing.words.emplace_back(node_.rank, own.words);
    round.standings.push_back(std::move(standing));
  }
  round.until = now + from_seconds(inquiry.patience);
  round.open = {node_.children.begin(), node_.children.end()};
  round.inquiry = std::move(inquiry);
  const Bytes bytes =
      encode(Inquiry{round.inquiry.number, round.inquiry.patience * kForChildren, round.inquiry.keys});
  for (Rank child : node_.children) outgoing_.push_back({child, bytes});
  if (round.open.empty()) conclude();
}

void StallInspector::merge(Standing& into, const Standing& from) const {
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
  if (node_.rank == 0) {
    put_into_words();
  } else {
    Answer answer{round_->inquiry.number, std::move(round_->standings)};
    outgoing_.push_back({node_.parent, encode(std::move(answer))});
  }
  round_.reset();
}

// Operations that wait for the same ranks are one report.
void StallInspector::put_into_words() {
  std::vector<std::pair<Standing, std::vector<Key>>> groups;
  for (std::size_t i = 0; i < round_->standings.size(); ++i) {
    const Key& key = round_->inquiry.keys[i];
    Standing& standing = round_->standings[i];
    if (!noticed_.contains(key) || (standing.missing.empty() && standing.silent.empty())) continue;
    auto same = std::ranges::find_if(groups, [&](const auto& group) {
      return group.first.missing == standing.missing && group.first.silent == standing.silent;
    });
    if (same == groups.end()) same = groups.insert(groups.end(), {std::move(standing), {}});
    same->second.push_back(key);
  }
  for (const auto& [standing, keys] : groups) {
    std::vector<const Noticed*> stalled;
    for (const Key& key : keys) stalled.push_back(&noticed_.at(key));
    const std::string words = words_of(stalled, standing, now_);
    for (const Key& key : keys) noticed_.at(key).words = words;
    if (settings_.report_after > Duration{}) reports_.push_back(words);
  }
}

std::string StallInspector::words_of(const std::vector<const Noticed*>& stalled, const Standing& standing,
                                     Time now) const {
  const Noticed& first =
      **std::ranges::min_element(stalled, {}, [](const Noticed* each) { return each->since; });
  std::string words = title_of_all(*first.request);
  if (stalled.size() > 1) words += fmt::format(" and {} operations more", stalled.size() - 1);
  words += fmt::format(" {} not complete after {:.1f} s.", stalled.size() > 1 ? "are" : "is",
                       std::chrono::duration<double>(now - first.since).count());
  if (!standing.waiting.empty()) words += fmt::format("\n  waiting: {}", to_string(standing.waiting));
  if (!standing.missing.empty())
    words += fmt::format("\n  not submitted by: {}", to_string(standing.missing));
  for (const auto& [rank, own] : standing.words) words += fmt::format("\n  rank {}: {}", rank, own);
  if (!standing.silent.empty()) {
    words += fmt::format("\n  no answer from: {}", to_string(standing.silent));
    for (Rank i = 0; i < std::min<Rank>(kNamed, standing.silent.count()) && settings_.place_of; ++i) {
      const Rank rank = standing.silent.at(i);
      words += fmt::format("\n  rank {}: {}: stopped, or stuck in a call", rank, settings_.place_of(rank));
    }
  }
  return words;
}

std::optional<Status> StallInspector::verdict(Time now) const {
  if (settings_.fail_after == Duration{}) return std::nullopt;
  for (const auto& [key, noticed] : noticed_) {
    if (noticed.words.empty() || now - noticed.since < settings_.fail_after) continue;
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
  if (node_.rank != 0) return next;
  for (const auto& [key, noticed] : noticed_) {
    if (!noticed.asked && !round_) earlier(noticed.asked_after);
  }
  return next;
}

}  // namespace rueda
