// SPDX-License-Identifier: Apache-2.0
// A set of ranks kept as ranges, so that "all of them" takes no more room than "one". A plain value.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rueda/types.h"

namespace rueda {

// Purpose: who takes part. Members ascend; each is there once.
class RankSet {
 public:
  using Range = std::pair<Rank, Rank>;  // [first, end)

  RankSet() = default;
  // All of [first, end); one rank.
  RankSet(Rank first, Rank end) { add(first, end); }
  static RankSet of(Rank rank) { return {rank, rank + 1}; }

  // Makes the set larger, by [first, end) or by another set, or smaller.
  void add(Rank first, Rank end);
  void add(const RankSet& other);
  void remove(const RankSet& other) { *this = *this - other; }

  // Whether the rank, or every rank of the other set, is a member.
  bool contains(Rank rank) const;
  bool contains(const RankSet& other) const;
  // The index of a member among all, counted from 0; the member at an index. They must be there.
  Rank index_of(Rank rank) const;
  Rank at(Rank index) const;
  bool empty() const { return only_.first == only_.second && several_.empty(); }
  Rank count() const;                                    // of the members
  Rank first() const { return ranges().front().first; }  // the lowest member, of a set that is not empty

  // The members as ranges: ascending, and apart from each other.
  std::span<const Range> ranges() const {
    return several_.empty() ? std::span(&only_, empty() ? 0 : 1) : std::span<const Range>(several_);
  }

  // Whether they have the same members; those without the other's; those in both.
  friend bool operator==(const RankSet&, const RankSet&) = default;
  friend RankSet operator-(const RankSet& from, const RankSet& other);
  friend RankSet operator&(const RankSet& a, const RankSet& b);

  // "rank 3", "ranks 0-3, 7"; at most eight ranges by name, then how many ranks more.
  friend std::string to_string(const RankSet& set);

 private:
  void append(Rank first, Rank end);  // behind all others
  bool contains_range(const Range& range) const;

  // Most sets are one range, which needs no allocation.
  Range only_{};                // where there is one at most
  std::vector<Range> several_;  // where there are more, all of them
};

}  // namespace rueda
