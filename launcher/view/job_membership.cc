// SPDX-License-Identifier: Apache-2.0
// Who makes up the job: what JobView hears of ranks that come and go.
#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "launcher/view/job_view.h"
#include "rueda/rank_set.h"

namespace rueda {
namespace {

constexpr auto kOneEnd = std::chrono::seconds(2);  // ranks that end within it end together

}  // namespace

void JobView::add_host(const std::string& name) {
  hosts_.push_back({.name = name, .load = {}, .before = {}});
  news_.job = true;
}

void JobView::add_rank(int rank, int host) {
  ranks_[rank].host = host;
  expect_ranks();
  news_.job = true;
}

void JobView::started(int rank, int host, int process) {
  RankView& about = ranks_[rank];
  about.host = host;
  about.process = process;
  if (about.state == RankState::starting) about.state = RankState::running;
  expect_ranks();
  news_.job = true;
}

void JobView::ended(int rank, bool is_lost, const std::string& words, Time now) {
  RankView& about = ranks_[rank];
  if (about.state == RankState::ended || about.state == RankState::lost) return;
  if (!facts_.elastic && !pace_.is_held()) {
    measure(now);
    pace_.hold(line_.progress.step_ms);
  }
  if (is_lost) tell_early_ends(now, true);
  about.state = is_lost ? RankState::lost : RankState::ended;
  about.ended_at = now;
  times_.note_end(rank, clock_.common_time(job_ns(now)));
  about.words = words;
  about.stalled_at.reset();
  expect_ranks();
  if (!facts_.elastic) curves_.note_end(rank);  // else another worker is that rank
  if (is_lost) {
    ++membership_.lost;
    note_event("lost", rank, words, now);
  }
  news_.job = true;
}

// An ordinary end is no news, unless others go on. Then it may be the cause of what happens to them.
void JobView::tell_early_ends(Time now, bool at_once) {
  if (count(ranks_, RankState::running) == 0) return;
  if (!facts_.elastic && count(ranks_, RankState::lost) > 0) return;
  RankSet together;
  Time first = now;
  const std::string on =
      fmt::format(", while {} ran on", facts_.elastic ? "others" : named(ranks_, RankState::running));
  for (auto& [number, rank] : ranks_) {
    if (rank.state != RankState::ended || rank.end_is_told || (!at_once && now < rank.ended_at + kOneEnd))
      continue;
    rank.end_is_told = true;
    rank.words += on;
    if (facts_.elastic) {
      note_event("left", number, rank.words, rank.ended_at);
      news_.job = true;
      continue;
    }
    together.add(number, number + 1);
    first = std::min(first, rank.ended_at);
  }
  if (together.empty()) return;
  const int rank = together.ranges().front().first;
  const bool is_one = together.count() == 1;
  note_event("left", is_one ? rank : -1,
             is_one ? ranks_.at(rank).words : fmt::format("{} have ended{}", to_string(together), on), first);
  news_.job = true;
}

// Times and steps of the generation before say nothing of this one. Offsets are to the clock of the present
// rank 0.
void JobView::generation(std::uint64_t number, const std::set<int>& members, Time now) {
  if (number == membership_.generation && members == membership_.members) return;
  if (members.empty()) return;
  const bool is_first = membership_.members.empty();
  if (!is_first) {
    take_shown();
    times_.begin_anew();
    take_shown();
    analysed_ = {.waits = times_.completed()};
    news_.analysis = true;
    pace_ = {};
    for (auto& [number, rank] : ranks_) {
      rank.stalled_at.reset();
      rank.failed_at = {};
    }
  }
  const std::set<int> before = std::exchange(membership_.members, members);
  membership_.generation = number;
  for (const int rank : members) {
    if (is_first || before.contains(rank)) continue;
    ++membership_.joined;
    note_event("joined", rank, fmt::format("worker {} has joined", rank), now);
  }
  if (!is_first)
    note_event("generation", -1, fmt::format("generation {} has {} ranks", number, members.size()), now);
  expect_ranks();
  clock_.put_rank_0_on(ranks_[*members.begin()].host);
  news_.job = true;
}

bool JobView::is_in_generation(int worker, const agents::Observed& news) const {
  return membership_.members.empty() || (rank_of(worker) >= 0 && news.generation == membership_.generation);
}

int JobView::rank_of(int worker) const {
  const std::set<int>& members = membership_.members;
  if (members.empty()) return worker;
  const auto found = members.find(worker);
  return found == members.end() ? -1 : static_cast<int>(std::distance(members.begin(), found));
}

std::string JobView::name_of_rank(int worker) const {
  const int rank = rank_of(worker);
  if (rank < 0) {
    const auto found = ranks_.find(worker);
    const bool is_spare = found != ranks_.end() && found->second.state == RankState::running;
    return fmt::format("worker {}{}", worker, is_spare ? ", a spare" : "");
  }
  return rank == worker ? fmt::format("rank {}", rank) : fmt::format("rank {} (worker {})", rank, worker);
}

void JobView::expect_ranks() {
  std::set<int> expected;
  for (const auto& [number, rank] : ranks_)
    if (may_train(rank) && rank_of(number) >= 0) expected.insert(number);
  times_.expect(std::move(expected));
}

}  // namespace rueda
