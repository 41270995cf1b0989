// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/job_record.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rueda {

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
}

void JobRecord::note_start(int rank, agents::Started started) {
  Rank& about = ranks_[static_cast<std::size_t>(rank)];
  if (about.started) return;
  about.started = std::move(started);
  ++started_;
}

bool JobRecord::note_end(int rank, const agents::Ended& ended) {
  Rank& about = ranks_[static_cast<std::size_t>(rank)];
  if (!about.started || about.ended) return false;
  about.ended = ended;
  ++ended_;
  switch (ended.cause) {
    case agents::Cause::own: return ended.status != 0;
    case agents::Cause::asked: return false;
    case agents::Cause::proxy_gone: return true;
    case agents::Cause::hydra: return true;
  }
  return true;
}

bool JobRecord::note_gone(int rank) {
  Rank& about = ranks_[static_cast<std::size_t>(rank)];
  if (about.ended) return false;
  about.gone = true;
  if (!about.started) note_start(rank, {.host = "an unknown host"});
  return note_end(rank, {.status = SIGKILL, .cause = agents::Cause::own});
}

std::string JobRecord::missing() const {
  constexpr int kNamed = 8;
  std::string names;
  int count = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].started && count++ < kNamed)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  return fmt::format("rank{} {}{}", count == 1 ? "" : "s", names,
                     count > kNamed ? fmt::format(" and {} more", count - kNamed) : "");
}

std::string JobRecord::words_for(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  if (!about.started || !about.ended) return fmt::format("rank {} runs", rank);
  const agents::Started& started = *about.started;
  std::string words = fmt::format("rank {} (process {} on {}) {}", rank, started.process, started.host,
                                  how_it_ended(about.ended->status));
  if (about.gone)
    words += fmt::format(": its agent (process {}) has gone, and with it the rank", started.agent);
  if (about.ended->cause == agents::Cause::proxy_gone)
    words += fmt::format(": Hydra's proxy beside it (process {}) has gone", started.proxy);
  if (about.ended->cause == agents::Cause::hydra) words += ": Hydra has asked its agent for that";
  return words;
}

int JobRecord::exit_code_of(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  return about.ended ? std::max(1, exit_code(about.ended->status)) : 1;
}

bool JobRecord::was_killed(int rank) const {
  const Rank& about = ranks_[static_cast<std::size_t>(rank)];
  return about.ended && about.ended->cause != agents::Cause::asked && WIFSIGNALED(about.ended->status);
}

}  // namespace rueda
