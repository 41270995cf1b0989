// SPDX-License-Identifier: Apache-2.0
#include "core/base/rank_set.h"

#include <fmt/format.h>

#include <algorithm>

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
  for (auto [first, end] : other.ranges_) add(first, end);
}

void RankSet::remove(const RankSet& other) {
  for (auto [first, end] : other.ranges_) {
    std::vector<std::pair<Rank, Rank>> kept;
    for (auto range : ranges_) {
      if (range.first < std::min(range.second, first))
        kept.emplace_back(range.first, std::min(range.second, first));
      if (std::max(range.first, end) < range.second)
        kept.emplace_back(std::max(range.first, end), range.second);
    }
    ranges_ = std::move(kept);
  }
}

bool RankSet::contains(Rank rank) const {
  return std::ranges::any_of(ranges_,
                             [&](const auto& range) { return range.first <= rank && rank < range.second; });
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
  for (auto [first, end] : set.ranges_) {
    writer.put(first);
    writer.put(end);
  }
}

RankSet read_rank_set(Reader& reader) {
  RankSet set;
  Rank after = 0;
  for (std::size_t i = reader.get_count(2 * sizeof(Rank)); i > 0; --i) {
    const Rank first = reader.get<Rank>();
    const Rank end = reader.get<Rank>();
    if (first < after || end <= first) {
      reader.fail();
      return {};
    }
    set.add(first, end);
    after = end;
  }
  return set;
}

}  // namespace rueda
