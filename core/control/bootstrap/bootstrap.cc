// SPDX-License-Identifier: Apache-2.0
#include "core/control/bootstrap/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace rueda {

Bootstrap::Bootstrap(Introduction own, Rank size, RankLists process_sets, Rank radix)
    : own_(std::move(own)),
      process_sets_(std::move(process_sets)),
      size_(size),
      node_(tree::by_rank(own_.rank, size, radix)),
      missing_(node_.subtree),
      awaited_(node_.parent) {
  own_.process_sets = in_words(process_sets_);
  missing_.remove(RankSet::of(own_.rank));
  if (own_.rank == 0) {
    heard_.resize(size_);
    heard_[0] = own_;
    conclude();
  } else {
    unsent_.ranks.push_back(own_);
  }
}

Status lost_during_start(Rank rank, const std::string& process, const std::string& how) {
  const std::string end = how.empty() ? "ended, or left, while the job started. Its own output tells why."
                                      : how + " while the job started.";
  return Status::peer_lost(
      fmt::format("init: rank {}{} {}", rank, process.empty() ? "" : " (" + process + ")", end));
}

void Bootstrap::receive(Rank from, ConstBytes bytes) {
  std::optional<Message> message = decode(bytes);
  if (message && own_.rank != 0) {
    if (auto* welcome = std::get_if<Welcome>(&*message)) return finish(std::move(*welcome));
    if (auto* referral = std::get_if<Referral>(&*message)) {
      awaited_ = referral->to;
      referral_ = std::move(*referral);
      return;
    }
  }
  if (!message || !std::holds_alternative<Hello>(*message)) {
    finish({Status::backend_error(
        fmt::format("rank {} got something from rank {} that is no introduction of this version. "
                    "Are all ranks of one build?",
                    own_.rank, from))});
    return;
  }
  for (Introduction& introduction : std::get<Hello>(*message).ranks) {
    if (!node_.subtree.contains(introduction.rank) || introduction.rank == own_.rank) continue;
    missing_.remove(RankSet::of(introduction.rank));
    if (own_.rank == 0) {
      heard_[introduction.rank] = std::move(introduction);
    } else {
      unsent_.ranks.push_back(std::move(introduction));
    }
  }
  if (own_.rank == 0) conclude();
}

void Bootstrap::expire(double seconds, const std::string& obstacle) {
  const std::string why = obstacle.empty() ? "" : " (" + obstacle + ")";
  if (awaited_ != node_.parent)
    return finish({Status::peer_lost(
        fmt::format("init: rank {} did not pass the list of ranks on to rank {} within {} s{}. Let each rank "
                    "reach the others, or allow more time by RUEDA_START_TIMEOUT.",
                    awaited_, own_.rank, seconds, why))});
  const std::string whom = own_.rank == 0 ? to_string(missing_) : fmt::format("rank {}", node_.parent);
  finish({Status::peer_lost(
      fmt::format("init: {} of {} did not come within {} s{}. Start every rank, or allow more time "
                  "by RUEDA_START_TIMEOUT.",
                  whom, size_, seconds, why))});
}

void Bootstrap::lose(Rank rank, const std::string& how) {
  const bool known = own_.rank == 0 && heard_[rank].has_value();
  finish({lost_during_start(
      rank, known ? fmt::format("process {} on {}", heard_[rank]->process_id, heard_[rank]->host) : "",
      how)});
}

std::vector<Envelope> Bootstrap::take_outgoing() {
  if (!unsent_.ranks.empty()) {
    outgoing_.push_back({node_.parent, encode(std::exchange(unsent_, {}))});
  }
  return std::exchange(outgoing_, {});
}

// At rank 0, when all have been heard: do they fit together?
Status Bootstrap::mismatch() const {
  std::map<std::string, RankSet>
      others;  // process sets that differ from rank 0's -> the ranks that have them
  RankSet alike;
  for (const std::optional<Introduction>& introduction : heard_) {
    if (introduction->version != own_.version) {
      return Status::mismatch(fmt::format(
          "init: rank {} on {} runs Rueda {}, rank 0 on {} runs {}. Install one version everywhere.",
          introduction->rank, introduction->host, introduction->version, own_.host, own_.version));
    }
    const bool same = introduction->process_sets == own_.process_sets;
    (same ? alike : others[introduction->process_sets]).add(RankSet::of(introduction->rank));
  }
  if (others.empty()) return check_static_sets(process_sets_, size_);
  std::string words = fmt::format("{} gave {}", to_string(alike), own_.process_sets);
  constexpr std::size_t kShown = 3;
  for (std::size_t shown = 0; const auto& [sets, ranks] : others) {
    if (++shown <= kShown) words += fmt::format("; {} gave {}", to_string(ranks), sets);
  }
  if (others.size() > kShown) words += fmt::format("; and {} others", others.size() - kShown);
  return Status::mismatch(
      fmt::format("init: the ranks differ in their process sets: {}. Give the same lists in the same order "
                  "on every rank.",
                  words));
}

void Bootstrap::conclude() {
  if (!missing_.empty()) return;
  Welcome welcome;
  welcome.status = mismatch();
  for (const std::optional<Introduction>& introduction : heard_) {
    welcome.hosts.push_back(introduction->host);
    welcome.process_ids.push_back(introduction->process_id);
    welcome.peer_infos.push_back(introduction->peer_info);
    welcome.job = std::max(welcome.job, introduction->job);
    welcome.steps = std::max(welcome.steps, introduction->steps);
  }
  if (std::ranges::any_of(heard_, [](const auto& introduction) { return introduction->local_rank >= 0; }))
    for (const std::optional<Introduction>& introduction : heard_)
      welcome.local_ranks.push_back(introduction->local_rank);
  if (!welcome.status.ok()) return finish(std::move(welcome));
  welcome_all(welcome);
  welcome_ = std::move(welcome);
}

// At rank 0. Whose parent can relay nothing gets the list from here, too. Those who relay it come first.
void Bootstrap::welcome_all(const Welcome& welcome) {
  const std::vector<Rank> parents = tree::parents_by_host(welcome.hosts);
  const Bytes bytes = encode(welcome);
  std::vector<Envelope> referrals;
  for (Rank child : node_.children) {
    const Introduction& parent = *heard_[parents[child]];
    if (parent.rank == 0 || parent.relay.empty()) {
      outgoing_.push_back({child, bytes});
    } else {
      referrals.push_back({child, encode(Referral{parent.rank, parent.relay})});
    }
  }
  std::ranges::move(referrals, std::back_inserter(outgoing_));
}

// Children by number, or those that rank 0 has referred to this rank.
void Bootstrap::finish(Welcome welcome) {
  std::vector<Rank> children = node_.children;
  if (welcome.status.ok() && !own_.relay.empty()) children = tree::by_host(own_.rank, welcome.hosts).children;
  const Bytes bytes = encode(welcome);
  for (Rank child : children) outgoing_.push_back({child, bytes});
  welcome_ = std::move(welcome);
}

std::vector<std::string> Bootstrap::differing_settings() const {
  std::map<std::string, RankSet> others;  // what differs from rank 0's -> the ranks that have it
  for (const std::optional<Introduction>& introduction : heard_) {
    if (!introduction) continue;
    for (std::size_t i = 0; i < std::min(own_.settings.size(), introduction->settings.size()); ++i) {
      if (introduction->settings[i] == own_.settings[i]) continue;
      others[fmt::format("RUEDA_{} here, RUEDA_{}", own_.settings[i], introduction->settings[i])].add(
          RankSet::of(introduction->rank));
    }
  }
  std::vector<std::string> lines;
  for (const auto& [values, ranks] : others) {
    lines.push_back(fmt::format("{} on {}; rank 0 decides for all where it can", values, to_string(ranks)));
  }
  return lines;
}

}  // namespace rueda
