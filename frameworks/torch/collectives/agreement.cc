// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/collectives/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/byte_exchange.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/fingerprint.h"
#include "rueda/rank_set.h"
#include "rueda/rueda.h"

namespace rueda {
namespace {

// No line contains it, since lines are names, types and shapes.
constexpr char kEndOfLine = '\n';

using Lines = std::vector<std::string_view>;

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) (text += line) += kEndOfLine;
  return text;
}

// The maxima of a value and of its complement are equal complements only when all ranks have the same value.
bool all_equal(const std::string& name, std::string_view text, const Scope& scope) {
  const auto hash = static_cast<std::int64_t>(fingerprint(std::as_bytes(std::span(text))));
  std::array<std::int64_t, 2> values{hash, ~hash};
  const TensorView both = view(std::span<std::int64_t>(values));
  allreduce_async(name + ".equal", both, both, {ReduceOp::max}, scope).wait();
  return values[0] == ~values[1];
}

Lines lines_of(std::string_view text) {
  Lines lines;
  for (std::size_t stop = text.find(kEndOfLine); stop != text.npos; stop = text.find(kEndOfLine)) {
    lines.push_back(text.substr(0, stop));
    text.remove_prefix(stop + 1);
  }
  return lines;
}

std::string describe_difference(const std::vector<Lines>& ranks, const Scope& scope) {
  std::size_t longest = 0;
  for (const Lines& lines : ranks) longest = std::max(longest, lines.size());
  for (std::size_t i = 0; i < longest; ++i) {
    std::map<std::string_view, RankSet> holders;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::string_view line = i < ranks[rank].size() ? ranks[rank][i] : "nothing more";
      holders[line].add(RankSet::of(scope.rank_at(static_cast<Rank>(rank))));
    }
    if (holders.size() == 1) continue;
    std::string words;
    for (const auto& [line, set] : holders) {
      words += fmt::format("{}{} {} {}", words.empty() ? "" : ", ", to_string(set),
                           set.count() == 1 ? "has" : "have", line);
    }
    return words;
  }
  return "their descriptions differ";
}

}  // namespace

void check_agreement(const std::string& name, const std::string& subject,
                     const std::vector<std::string>& lines, const Scope& scope, const std::string& remedy) {
  const std::string text = join(lines);
  if (all_equal(name, text, scope)) return;
  const std::vector<std::string> all = allgather_bytes(text, name + ".lines", scope);
  std::vector<Lines> ranks;
  for (const std::string& of_rank : all) ranks.push_back(lines_of(of_rank));
  throw Mismatch(Status::mismatch(
      fmt::format("{}: the ranks differ: {}. {}", subject, describe_difference(ranks, scope), remedy)));
}

std::string failures_of_all(const std::string& name, const std::string& failure, const Scope& scope) {
  if (all_equal(name, failure, scope) && failure.empty()) return {};
  const std::vector<std::string> all = allgather_bytes(failure, name + ".failures", scope);
  std::map<std::string_view, RankSet> failed;
  for (std::size_t index = 0; index < all.size(); ++index) {
    if (!all[index].empty()) failed[all[index]].add(RankSet::of(scope.rank_at(static_cast<Rank>(index))));
  }
  std::string words;
  for (const auto& [reason, set] : failed) {
    words += fmt::format("{}{}: {}", words.empty() ? "" : "; ", to_string(set), reason);
  }
  return words;
}

void check_members(Rank root, const Scope& scope, const std::string& what) {
  const RankSet ranks = scope.ranks() ? *scope.ranks() : RankSet(0, scope.size());
  const Rank rank = scope.runtime().topology().rank;
  if (!ranks.contains(rank))
    refuse(fmt::format("rank {}: {} among {}, of which this rank is none", rank, what, to_string(ranks)));
  if (!ranks.contains(root))
    refuse(fmt::format("rank {}: {} from rank {}; it must be one of {}", rank, what, root, to_string(ranks)));
}

}  // namespace rueda
