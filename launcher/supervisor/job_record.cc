// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/job_record.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "launcher/system/printable.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

std::string in_words(const std::vector<int>& ranks) {
  constexpr std::size_t kNamed = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(kNamed, ranks.size()); ++i)
    names += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", names,
                     ranks.size() > kNamed ? fmt::format(" and {} more", ranks.size() - kNamed) : "");
}

}  // namespace

JobRecord::JobRecord(const std::vector<HostRanks>& hosts) {
  for (const HostRanks& host : hosts) {
    Host& fresh = hosts_.emplace_back();
    for (const SlotInfo& slot : host.ranks) {
      fresh.ranks.push_back(slot.rank);
      ranks_.resize(std::max(ranks_.size(), static_cast<std::size_t>(slot.rank) + 1));
      ranks_[static_cast<std::size_t>(slot.rank)].host = static_cast<int>(hosts_.size()) - 1;
    }
  }
}

void JobRecord::note_ready(int host, const agents::Ready& ready) {
  hosts_[static_cast<std::size_t>(host)].ready = ready;
}

void JobRecord::note_launch(int host) {
  for (const int rank : hosts_[static_cast<std::size_t>(host)].ranks) {
    if (std::exchange(ranks_[static_cast<std::size_t>(rank)].running, true)) continue;
    ++running_;
  }
}

int JobRecord::add_host() {
  hosts_.emplace_back();
  return static_cast<int>(hosts_.size()) - 1;
}

int JobRecord::add_rank(int host) {
  const int rank = ranks();
  ranks_.push_back({.host = host, .running = true});
  hosts_[static_cast<std::size_t>(host)].ranks.push_back(rank);
  ++running_;
  return rank;
}

void JobRecord::note_cannot_start(int rank) {
  constexpr int kCannotStart = 127;
  note_start({.rank = rank, .process = 0});
  note_end({.rank = rank, .status = W_EXITCODE(kCannotStart, 0)});
}

int JobRecord::unstarted_on(int host) const {
  for (const int rank : hosts_[static_cast<std::size_t>(host)].ranks)
    if (!ranks_[static_cast<std::size_t>(rank)].started) return rank;
  return -1;
}

void JobRecord::note_no_start(int host) {
  for (const int rank : hosts_[static_cast<std::size_t>(host)].ranks) {
    Rank& each = ranks_[static_cast<std::size_t>(rank)];
    if (!each.started && std::exchange(each.running, false)) --running_;
  }
}

bool JobRecord::all_started_on(int host) const {
  return std::ranges::all_of(hosts_[static_cast<std::size_t>(host)].ranks, [&](int rank) {
    return ranks_[static_cast<std::size_t>(rank)].started.has_value();
  });
}

void JobRecord::note_start(const agents::Started& started) {
  Rank& about = ranks_[static_cast<std::size_t>(started.rank)];
  if (about.started) return;
  about.started = started;
  ++started_;
}

bool JobRecord::note_end(const agents::Ended& ended) {
  Rank& about = ranks_[static_cast<std::size_t>(ended.rank)];
  if (!about.started || about.ended) return false;
  about.ended = ended;
  ++ended_;
  if (std::exchange(about.running, false)) --running_;
  return !ended.asked && (ended.status != 0 || ended.in_mpi);
}

std::vector<int> JobRecord::note_gone(int host) {
  std::vector<int> lost;
  note_no_start(host);
  for (const int rank : hosts_[static_cast<std::size_t>(host)].ranks) {
    Rank& each = ranks_[static_cast<std::size_t>(rank)];
    if (each.ended || !each.started) continue;
    each.lost_with_agent = true;
    note_end({.rank = rank, .status = SIGKILL});
    lost.push_back(rank);
  }
  return lost;
}

std::string JobRecord::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].started) ranks.push_back(static_cast<int>(rank));
  return in_words(ranks);
}

std::string JobRecord::ranks_on(int host) const {
  return in_words(hosts_[static_cast<std::size_t>(host)].ranks);
}

std::string JobRecord::process_of(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  const agents::Ready ready = hosts_[static_cast<std::size_t>(about.host)].ready.value_or(agents::Ready{});
  return fmt::format("process {} on {}", about.started ? about.started->process : 0, ready.host);
}

std::string JobRecord::words_for(int rank, const std::string& name) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  if (!about.started || !about.ended) return fmt::format("rank {} runs", rank);
  std::string words = fmt::format("{}{}) {}", name.empty() ? fmt::format("rank {} (", rank) : name,
                                  process_of(rank), how_it_ended(about.ended->status));
  if (about.lost_with_agent) {
    const auto& ready = hosts_[static_cast<std::size_t>(about.host)].ready;
    words += fmt::format(": its agent (process {}) has gone, and with it the rank", ready ? ready->agent : 0);
  }
  if (about.ended->in_mpi && about.ended->status == 0) words += " without MPI_Finalize";
  return words;
}

std::string JobRecord::failure_of(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  return about.ended ? printable(about.ended->failure, "") : "";
}

bool JobRecord::failed_by_itself(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  return about.ended && about.ended->failure.empty() && !about.ended->saw_loss && !about.lost_with_agent;
}

int JobRecord::exit_code_of(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  return about.ended ? std::max(1, exit_code(about.ended->status)) : 1;
}

bool JobRecord::was_killed(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  return about.ended && !about.ended->asked && WIFSIGNALED(about.ended->status);
}

}  // namespace rueda
