// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/dump_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string_view>

#include "core/base/operation_traits.h"

namespace rueda {
namespace {

constexpr std::size_t kMostShown = 20;  // operations in one paragraph

std::string time_in_words(double unix_seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

// "allreduce of float32 [1024, 768]"; a barrier has no tensor.
std::string terms_of(const RecordedOperation& operation) {
  std::string words(to_string(operation.operation));
  const bool has_tensor = traits(operation.operation).moves_data && operation.operation != Operation::barrier;
  if (has_tensor)
    words += fmt::format(" of {} [{}]", to_string(operation.dtype), fmt::join(operation.shape, ", "));
  if (traits(operation.operation).has_root && has_tensor && operation.operation != Operation::message)
    words += fmt::format(" from root {}", operation.root);
  return words;
}

// The same operation may have other rows on each rank.
std::string comparable_terms(const RecordedOperation& operation) {
  RecordedOperation same = operation;
  if (traits(operation.operation).ragged_first_axis && !same.shape.empty())
    same.shape.erase(same.shape.begin());
  return terms_of(same);
}

// By what they say, the ranks that say it.
template <class Words>
std::map<std::string, RankSet> ranks_by(const JobOperation& operation, Words words) {
  std::map<std::string, RankSet> ranks;
  for (const auto& [rank, each] : operation.on) ranks[words(each)].add(RankSet::of(rank));
  return ranks;
}

bool is_different(const JobOperation& operation) { return ranks_by(operation, comparable_terms).size() > 1; }

bool has_state(const JobOperation& operation, RecordedState state) {
  return std::ranges::any_of(operation.on, [&](const auto& each) { return each.second.state == state; });
}

bool waits_for_ranks(const JobOperation& operation) {
  return operation.plan == 0 && has_state(operation, RecordedState::submitted);
}

bool moves_data(const JobOperation& operation) {
  return has_state(operation, RecordedState::started) ||
         (operation.plan != 0 && has_state(operation, RecordedState::submitted));
}

double age_of(const JobOperation& operation, double now) {
  double oldest = now;
  for (const auto& [rank, each] : operation.on)
    if (each.ended_ns == 0) oldest = std::min(oldest, static_cast<double>(each.submitted_ns) * 1e-9);
  return std::max(0.0, now - oldest);
}

std::string_view state_in_words(const RecordedOperation& operation) {
  switch (operation.state) {
    case RecordedState::submitted: return operation.plan != 0 ? "waits for its turn" : "waits for ranks";
    case RecordedState::started: return "moves data";
    case RecordedState::completed: return "has completed";
    case RecordedState::failed: break;
  }
  return "has failed";
}

std::string title_of(const JobGroup& group, const JobOperation& operation) {
  return fmt::format("'{}' of {}", operation.name, group.name);
}

std::string line_of_difference(const JobGroup& group, const JobOperation& operation, double) {
  std::string line = title_of(group, operation) + ":";
  for (const auto& [terms, ranks] : ranks_by(operation, terms_of))
    line += fmt::format("\n    {} on {}", terms, to_string(ranks));
  return line;
}

std::string line_of_wait(const JobGroup& group, const JobOperation& operation, double now) {
  const RecordedOperation& first = operation.on.begin()->second;
  RankSet have;
  for (const auto& [rank, each] : operation.on) have.add(RankSet::of(rank));
  std::string line =
      fmt::format("{}, {}, for {:.1f} s: {} {} submitted it", title_of(group, operation), terms_of(first),
                  age_of(operation, now), to_string(have), have.count() == 1 ? "has" : "have");
  if (!operation.missing.empty())
    line += fmt::format(", {} {} not", to_string(operation.missing),
                        operation.missing.count() == 1 ? "has" : "have");
  if (!operation.forgotten.empty())
    line += fmt::format("; {} may have, among more operations than a recording has room for",
                        to_string(operation.forgotten));
  if (!operation.absent.empty())
    line += fmt::format("; of {} there is no recording", to_string(operation.absent));
  return line;
}

std::string line_of_move(const JobGroup& group, const JobOperation& operation, double now) {
  std::string line = fmt::format("{}, {}, for {:.1f} s:", title_of(group, operation),
                                 terms_of(operation.on.begin()->second), age_of(operation, now));
  std::string_view before;
  for (const auto& [words, ranks] :
       ranks_by(operation, [](const RecordedOperation& each) { return std::string(state_in_words(each)); })) {
    line += fmt::format("{} {} on {}", before, words, to_string(ranks));
    before = ",";
  }
  if (!operation.absent.empty())
    line += fmt::format("; of {} there is no recording", to_string(operation.absent));
  return line;
}

using Choose = bool (*)(const JobOperation&);
using Line = std::string (*)(const JobGroup&, const JobOperation&, double);

// Empty where no operation is chosen.
std::string paragraph(std::string_view title, const std::vector<JobGroup>& groups, Choose choose, Line line,
                      double now) {
  std::string text;
  std::size_t count = 0;
  for (const JobGroup& group : groups) {
    for (const JobOperation& operation : group.operations) {
      if (choose(operation) && ++count <= kMostShown)
        text += fmt::format("  {}\n", line(group, operation, now));
    }
  }
  if (count > kMostShown) text += fmt::format("  and {} more\n", count - kMostShown);
  return text.empty() ? "" : fmt::format("\n{}\n{}", title, text);
}

std::string silent_ranks(const DumpFacts& facts, const std::map<Rank, RankRecording>& recordings) {
  RankSet silent, without;
  for (const auto& [rank, known] : facts.ranks) {
    const auto found = recordings.find(rank);
    if (found == recordings.end())
      silent.add(RankSet::of(rank));
    else if (found->second.runtimes.empty())
      without.add(RankSet::of(rank));
  }
  std::string text;
  if (!silent.empty()) text += fmt::format("\nNothing has come from {}.\n", to_string(silent));
  if (!without.empty())
    text += fmt::format("\nNo operations of Rueda are known of {}: init() has not been called.\n",
                        to_string(without));
  return text;
}

std::string rank_in_words(const DumpFacts& facts, Rank rank) {
  const auto known = facts.ranks.find(rank);
  return known == facts.ranks.end() ? fmt::format("rank {}", rank) : known->second;
}

// One that has nothing in flight, beside others, is worth no more than its name.
std::string text_of_rank(const DumpFacts& facts, Rank rank, const RankRecording& recording) {
  std::string text = rank_in_words(facts, rank) + "\n";
  std::size_t resting = 0;
  for (const RecordedRuntime& runtime : recording.runtimes) {
    if (!runtime.name.empty() && runtime.recording.in_flight.empty()) {
      ++resting;
      continue;
    }
    if (recording.runtimes.size() > 1 || !runtime.name.empty())
      text += fmt::format("  {}:\n", runtime.name.empty() ? "all ranks" : runtime.name);
    for (const std::string& line : describe(runtime.recording, recording.monotonic_ns)) text += line + "\n";
  }
  if (resting > 0) text += fmt::format("  {} more groups with nothing in flight\n", resting);
  if (recording.left_out > 0) text += fmt::format("  {} more groups\n", recording.left_out);
  return text;
}

}  // namespace

std::string dump_summary(const DumpFacts& facts, const std::vector<JobGroup>& groups,
                         const std::map<Rank, RankRecording>& recordings) {
  const double now = facts.unix_seconds;
  std::string text = fmt::format("{}, ruedarun {}, {} ranks: {}\n{}\n", time_in_words(now), facts.process,
                                 facts.ranks.size(), facts.command,
                                 facts.reason.empty() ? "Somebody has asked for this." : facts.reason);
  std::string body = paragraph("Ranks do not agree on", groups, &is_different, &line_of_difference, now) +
                     paragraph("Waits for ranks", groups, &waits_for_ranks, &line_of_wait, now) +
                     paragraph("Under way", groups, &moves_data, &line_of_move, now) +
                     silent_ranks(facts, recordings);
  return text + (body.empty() ? "\nNo operation is in flight.\n" : body);
}

std::string dump_text(const DumpFacts& facts, const std::vector<JobGroup>& groups,
                      const std::map<Rank, RankRecording>& recordings) {
  std::string text = dump_summary(facts, groups, recordings) + "\nRanks\n";
  for (const auto& [rank, recording] : recordings) text += text_of_rank(facts, rank, recording);
  return text;
}

}  // namespace rueda
