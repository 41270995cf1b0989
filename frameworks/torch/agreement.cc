// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/rank_set.h"
#include "core/rueda.h"

namespace rueda {
namespace {

// Separators that no line contains, since lines are names, types and shapes.
constexpr char kEndOfLine = '\n';
constexpr char kEndOfRank = '\0';

using Lines = std::vector<std::string_view>;

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) (text += line) += kEndOfLine;
  return text;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

// The maxima of a value and of its complement are equal complements only when all ranks have the same value.
bool all_equal(const std::string& name, std::string_view text, const Scope& scope) {
  const auto hash = static_cast<std::int64_t>(fnv1a(text));
  std::array<std::int64_t, 2> values{hash, ~hash};
  const TensorView both = view(std::span<std::int64_t>(values));
  allreduce_async(name + ".equal", both, both, {ReduceOp::max}, scope).wait();
  return values[0] == ~values[1];
}

// The parts of `text` that `end` ends.
Lines split(std::string_view text, char end) {
  Lines parts;
  for (std::size_t stop = text.find(end); stop != text.npos; stop = text.find(end)) {
    parts.push_back(text.substr(0, stop));
    text.remove_prefix(stop + 1);
  }
  return parts;
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
                     const std::vector<std::string>& lines, const Scope& scope) {
  std::string text = join(lines);
  if (all_equal(name, text, scope)) return;
  text += kEndOfRank;
  const ConstTensorView mine(text.data(), DataType::uint8, {static_cast<std::int64_t>(text.size())});
  const Handle handle = allgather_async(name + ".lines", mine, scope);
  handle.wait();
  const std::string_view all(static_cast<const char*>(handle.output().data), handle.output().bytes());
  std::vector<Lines> ranks;
  for (std::string_view of_rank : split(all, kEndOfRank)) ranks.push_back(split(of_rank, kEndOfLine));
  throw Mismatch(Status::mismatch(fmt::format("{}: the ranks differ: {}. Make them the same on every rank.",
                                              subject, describe_difference(ranks, scope))));
}

}  // namespace rueda
