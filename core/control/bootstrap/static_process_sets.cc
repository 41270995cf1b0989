// SPDX-License-Identifier: Apache-2.0
#include "core/control/bootstrap/static_process_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace rueda {
namespace {

constexpr std::size_t kLongestWords = 160;

// "[0-1, 7]"; a rank that is there twice is named twice.
std::string ranks_in_words(std::vector<Rank> ranks) {
  std::ranges::sort(ranks);
  std::string text = "[";
  for (std::size_t i = 0, end; i < ranks.size(); i = end) {
    end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (i > 0) text += ", ";
    text += end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
  }
  return text + "]";
}

// FNV-1a: the same in every process, unlike std::hash.
std::uint64_t checksum(const std::string& text) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char letter : text) sum = (sum ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return sum;
}

// So much of it as an error message should show.
std::string shortened(const std::string& text) {
  return text.size() <= kLongestWords ? text : text.substr(0, kLongestWords) + "...";
}

// Returns the error of one set of sorted ranks, in words; empty if there is none.
std::string error(const std::vector<Rank>& ranks, Rank size) {
  if (ranks.empty()) return "is empty; give it at least one rank";
  if (ranks.front() < 0 || ranks.back() >= size) {
    return fmt::format("has a rank {}, but the job has {}; give ranks of the job",
                       ranks.front() < 0 ? ranks.front() : ranks.back(), to_string(RankSet(0, size)));
  }
  if (const auto twice = std::ranges::adjacent_find(ranks); twice != ranks.end())
    return fmt::format("names rank {} twice; name each once", *twice);
  if (ranks.size() == static_cast<std::size_t>(size))
    return "has all ranks of the job, as process set 0, which is always there; leave it out";
  return {};
}

}  // namespace

std::string in_words(const RankLists& lists) {
  if (lists.empty()) return "none";
  std::string text;
  for (const std::vector<Rank>& ranks : lists) text += (text.empty() ? "" : ", ") + ranks_in_words(ranks);
  if (text.size() <= kLongestWords) return text;
  return fmt::format("{} ({} sets, checksum {:016x})", shortened(text), lists.size(), checksum(text));
}

Status check_static_sets(const RankLists& lists, Rank size) {
  std::map<std::vector<Rank>, std::size_t> seen;  // sorted members -> which list
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::vector<Rank> sorted = lists[i];
    std::ranges::sort(sorted);
    std::string words = error(sorted, size);
    if (words.empty()) {
      const auto [same, fresh] = seen.try_emplace(std::move(sorted), i + 1);
      if (fresh) continue;
      words = fmt::format("has the same members as process set {}; give it once", same->second);
    }
    return Status::invalid_argument(fmt::format("init: process set {} of {}, {}, {}.", i + 1, lists.size(),
                                                shortened(ranks_in_words(lists[i])), words));
  }
  return {};
}

std::vector<RankSet> members_of(const RankLists& lists) {
  std::vector<RankSet> sets;
  for (std::vector<Rank> ranks : lists) {
    std::ranges::sort(ranks);  // each add() then is at the end
    RankSet& set = sets.emplace_back();
    for (const Rank rank : ranks) set.add(RankSet::of(rank));
  }
  return sets;
}

}  // namespace rueda
