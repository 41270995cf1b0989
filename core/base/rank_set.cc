// SPDX-License-Identifier: Apache-2.0
#include "core/base/rank_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace rueda {

void RankSet::add(Rank first, Rank end) {
  if (first >= end) return;
  auto begin = std::ranges::lower_bound(ranges_, first, {}, [](const auto& range) { return range.second; });
  auto stop = begin;
  while (stop != ranges_.end() && stop->first <= end) {  // touches or overlaps: swallow it
    first = std::min(first, stop->first);
    end = std::max(end, stop->second);
    ++stop;
  }
  ranges_.insert(ranges_.erase(begin, stop), {first, end});
}

void RankSet::add(const RankSet& other) {
  if (other.ranges_.size() == 1) return add(other.ranges_.front().first, other.ranges_.front().second);
  std::vector<Range> both;
  both.reserve(ranges_.size() + other.ranges_.size());
  std::ranges::merge(ranges_, other.ranges_, std::back_inserter(both));
  ranges_.clear();
  for (auto [first, end] : both) {
    if (!ranges_.empty() && first <= ranges_.back().second) {
      ranges_.back().second = std::max(ranges_.back().second, end);
    } else {
      ranges_.emplace_back(first, end);
    }
  }
}

bool RankSet::contains(Rank rank) const { return contains_range({rank, rank + 1}); }

bool RankSet::contains(const RankSet& other) const {
  return std::ranges::all_of(other.ranges_, [&](const Range& range) { return contains_range(range); });
}

// Ranges are apart, so a range lies in one of them or is not contained.
bool RankSet::contains_range(const Range& range) const {
  const auto place = std::ranges::lower_bound(ranges_, range.second, {}, &Range::second);
  return place != ranges_.end() && place->first <= range.first;
}

Rank RankSet::index_of(Rank rank) const {
  Rank before = 0;
  for (auto [first, end] : ranges_) {
    if (rank < end) return before + rank - first;
    before += end - first;
  }
  return before;
}

Rank RankSet::at(Rank index) const {
  for (auto [first, end] : ranges_) {
    if (index < end - first) return first + index;
    index -= end - first;
  }
  return -1;
}

Rank RankSet::count() const {
  Rank total = 0;
  for (auto [first, end] : ranges_) total += end - first;
  return total;
}

RankSet operator-(const RankSet& from, const RankSet& other) {
  RankSet left;
  auto hole = other.ranges_.begin();
  for (auto [first, end] : from.ranges_) {
    while (hole != other.ranges_.end() && hole->second <= first) ++hole;
    for (auto next = hole; next != other.ranges_.end() && next->first < end; ++next) {
      if (first < next->first) left.ranges_.emplace_back(first, next->first);
      first = next->second;
    }
    if (first < end) left.ranges_.emplace_back(first, end);
  }
  return left;
}

RankSet operator&(const RankSet& a, const RankSet& b) {
  RankSet common;
  auto left = a.ranges_.begin(), right = b.ranges_.begin();
  while (left != a.ranges_.end() && right != b.ranges_.end()) {
    const Rank first = std::max(left->first, right->first), end = std::min(left->second, right->second);
    if (first < end) common.ranges_.emplace_back(first, end);
    ++(left->second < right->second ? left : right);
  }
  return common;
}

std::string to_string(const RankSet& set) {
  constexpr std::size_t kShown = 8;
  if (set.empty()) return "no rank";
  std::string text = set.count() == 1 ? "rank " : "ranks ";
  Rank left = set.count();
  for (std::size_t i = 0; i < std::min(kShown, set.ranges_.size()); ++i) {
    auto [first, end] = set.ranges_[i];
    if (i > 0) text += ", ";
    text += end - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1);
    left -= end - first;
  }
  if (left > 0) text += fmt::format(" and {} more", left);
  return text;
}

void write(Writer& writer, const RankSet& set) {
  writer.put_count(set.ranges_.size());
  Rank after = 0;
  for (auto [first, end] : set.ranges_) {
    writer.put_size(static_cast<std::uint64_t>(first - after));
    writer.put_size(static_cast<std::uint64_t>(end - first));
    after = end;
  }
}

// Ranges are apart and have members, so that there is one way to write a set.
RankSet read_rank_set(Reader& reader) {
  constexpr std::int64_t kMost = std::numeric_limits<Rank>::max();
  RankSet set;
  std::int64_t after = 0;
  for (std::size_t i = reader.get_count(2); i > 0; --i) {
    const std::int64_t gap = reader.get_size(), count = reader.get_size();
    if (gap > kMost - after || count > kMost - after - gap || count == 0 || (gap == 0 && after > 0)) {
      reader.fail();
      return {};
    }
    const std::int64_t first = after + gap;
    after = first + count;
    set.add(static_cast<Rank>(first), static_cast<Rank>(after));
  }
  return set;
}

}  // namespace rueda
