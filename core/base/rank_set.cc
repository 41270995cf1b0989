// SPDX-License-Identifier: Apache-2.0
#include "rueda/rank_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace rueda {

void RankSet::append(Rank first, Rank end) {
  if (empty()) {
    only_ = {first, end};
  } else if (several_.empty()) {
    several_ = {std::exchange(only_, {}), {first, end}};
  } else {
    several_.emplace_back(first, end);
  }
}

void RankSet::add(Rank first, Rank end) {
  if (first >= end) return;
  if (empty() || first > ranges().back().second) return append(first, end);
  if (several_.empty() && end < only_.first) {
    several_ = {{first, end}, std::exchange(only_, {})};
  } else if (several_.empty()) {
    only_ = {std::min(first, only_.first), std::max(end, only_.second)};
  } else {
    auto begin = std::ranges::lower_bound(several_, first, {}, &Range::second);
    auto stop = begin;
    while (stop != several_.end() && stop->first <= end) {  // touches or overlaps: swallow it
      first = std::min(first, stop->first);
      end = std::max(end, stop->second);
      ++stop;
    }
    several_.insert(several_.erase(begin, stop), {first, end});
    if (several_.size() == 1) only_ = std::exchange(several_, {}).front();
  }
}

void RankSet::add(const RankSet& other) {
  if (other.empty()) return;
  if (other.several_.empty()) return add(other.only_.first, other.only_.second);
  std::vector<Range> both;
  both.reserve(ranges().size() + other.several_.size());
  std::ranges::merge(ranges(), other.several_, std::back_inserter(both));
  *this = {};
  Range open = both.front();
  for (const Range& range : both) {
    if (range.first > open.second) {
      append(open.first, open.second);
      open = range;
    }
    open.second = std::max(open.second, range.second);
  }
  append(open.first, open.second);
}

bool RankSet::contains(Rank rank) const { return contains_range({rank, rank + 1}); }

bool RankSet::contains(const RankSet& other) const {
  return std::ranges::all_of(other.ranges(), [&](const Range& range) { return contains_range(range); });
}

// Ranges are apart, so a range lies in one of them or is not contained.
bool RankSet::contains_range(const Range& range) const {
  const auto found = std::ranges::lower_bound(ranges(), range.second, {}, &Range::second);
  return found != ranges().end() && found->first <= range.first;
}

Rank RankSet::index_of(Rank rank) const {
  Rank before = 0;
  for (auto [first, end] : ranges()) {
    if (rank < end) return before + rank - first;
    before += end - first;
  }
  return before;
}

Rank RankSet::at(Rank index) const {
  for (auto [first, end] : ranges()) {
    if (index < end - first) return first + index;
    index -= end - first;
  }
  return -1;
}

Rank RankSet::count() const {
  Rank total = 0;
  for (auto [first, end] : ranges()) total += end - first;
  return total;
}

RankSet operator-(const RankSet& from, const RankSet& other) {
  RankSet left;
  const auto holes = other.ranges();
  auto hole = holes.begin();
  for (auto [first, end] : from.ranges()) {
    while (hole != holes.end() && hole->second <= first) ++hole;
    for (auto next = hole; next != holes.end() && next->first < end; ++next) {
      if (first < next->first) left.append(first, next->first);
      first = next->second;
    }
    if (first < end) left.append(first, end);
  }
  return left;
}

RankSet operator&(const RankSet& a, const RankSet& b) {
  RankSet common;
  const auto lefts = a.ranges(), rights = b.ranges();
  auto left = lefts.begin(), right = rights.begin();
  while (left != lefts.end() && right != rights.end()) {
    const Rank first = std::max(left->first, right->first), end = std::min(left->second, right->second);
    if (first < end) common.append(first, end);
    ++(left->second < right->second ? left : right);
  }
  return common;
}

std::string to_string(const RankSet& set) {
  constexpr std::size_t kShown = 8;
  if (set.empty()) return "no rank";
  std::string text = set.count() == 1 ? "rank " : "ranks ";
  Rank left = set.count();
  for (std::size_t i = 0; i < std::min(kShown, set.ranges().size()); ++i) {
    auto [first, end] = set.ranges()[i];
    if (i > 0) text += ", ";
    text += end - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1);
    left -= end - first;
  }
  if (left > 0) text += fmt::format(" and {} more", left);
  return text;
}

}  // namespace rueda
