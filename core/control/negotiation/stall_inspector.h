// SPDX-License-Identifier: Apache-2.0
// Reports the ranks that keep others waiting, and their activity. A node asks for both as soon as an
// operation waits long, or does not move.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/control/messages/control_message.h"
#include "core/control/messages/transport.h"
#include "core/control/negotiation/tree.h"

namespace rueda {

// Purpose: one node's part of stall reports. Rank 0 hears of a stalled operation (from its own tallies, or by
// a Stall from below), asks the whole tree once (Inquiry), and puts the answers into words; each node asks
// its children, adds itself, and does not wait for a child longer than the Inquiry's timeout. All ranks hear
// of the missing ones by a Missing. While all that are missing evaluate or save, it reports nothing and asks
// again later. Pure, owned by a Negotiator.
//
// A stalled Work is reported by its Plan's number. Each member with such a Work sends one Stall, and each
// node on the way to rank 0 passes one on for all below. If no Inquiry follows, rank 0 or a node on the way
// has stopped. Then a node asks the ranks below it, and writes the report itself. A node nearer to rank 0
// does so sooner; its Inquiry keeps the nodes below from asking.
class StallInspector {
 public:
  // This rank's own part of an answer to an Inquiry.
  struct OwnState {
    bool member = false;   // of the process set; of a Plan: and its Work runs here
    bool waiting = false;  // has submitted it
    Time moved{};          // of a Plan: when its Work did so last
    std::string words;     // of a Plan, or if not waiting: process, host, latest activity
    bool pauses = false;   // if not waiting: it evaluates or saves, or has done so until a moment ago
  };
  struct Settings {
    Duration report_after{};  // 0: never
    Duration fail_after{};    // 0: never
    std::function<OwnState(const Asked&)> own_state;
    std::function<std::string(Rank)> process_of;  // "process 4711 on host"
  };

  StallInspector(const TreeNode& node, Settings settings);

  bool on() const { return settings_.report_after > Duration{} || settings_.fail_after > Duration{}; }
  // When an operation that is incomplete since `since` should be looked at again.
  bool overdue(Time since, Time now) const;

  // An operation waits for longer than `report_after`. Each occurrence counts once: `since` tells them apart.
  void notice(const SharedRequest& request, Time since, Time now);
  // Its Plan has been called, and its Work has not moved here since `since`, for longer than `report_after`.
  // May be said again; counts once, until it has moved.
  void notice(const SharedRequest& request, std::uint64_t plan, Time since, Time now);
  // It has completed or is gone.
  void forget(const Key& key) { noticed_.erase(key); }
  void forget(const Request& request) {
    if (!noticed_.empty()) noticed_.erase(key_of(request));
  }

  void forget_set(ProcessSetId set) {
    std::erase_if(noticed_, [&](const auto& each) { return each.first.process_set == set; });
  }

  void take_message(Rank from, Stall stall, Time now);
  void take_message(Rank from, const Inquiry& inquiry, Time now);
  void take_message(Rank from, Answer answer, Time now);
  void take_message(Missing missing);
  void tick(Time now);

  std::vector<Envelope> take_outgoing() { return std::exchange(outgoing_, {}); }
  // Reports in words, one for each set of operations with the same missing ranks: at rank 0, or where it does
  // not answer.
  std::vector<std::string> take_reports() { return std::exchange(reports_, {}); }
  // On all ranks: the ranks that operations wait for.
  std::vector<Missing> take_missing() { return std::exchange(missing_, {}); }
  // The report on the operation that waits longest, of those that wait still: it may be the cause of the
  // others. Of several that began together it is the one that lacks the fewest ranks. Empty: none waits.
  std::string_view oldest_report() const;
  // At rank 0: why the job must end, once something has waited for `fail_after`.
  std::optional<Status> verdict(Time now) const;
  std::optional<Time> due() const;

 private:
  struct Noticed {
    SharedRequest request;
    Time since;
    Time asked_after;  // when to ask: others may be noticed in the meantime, or rank 0 asks
    std::uint64_t plan = 0;
    Time at{};  // when it was noticed
    bool asked = false;
    std::string words;  // once answered
    Rank missing = 0;   // so many ranks
    bool reported = false;
    bool confirmed = false;  // of a Plan: answered when it had waited for `fail_after`
  };
  struct Round {  // an Inquiry under way
    Inquiry inquiry;
    bool own = false;  // begun here
    Time until;
    std::set<Rank> open;  // children that have not answered
    std::vector<Standing> standings;
  };

  void begin(Inquiry inquiry, bool own, Time now);
  bool to_be_asked(const Noticed& noticed, Time now) const;
  OwnState own_state(const Asked& asked, Time now) const;
  // After which something is to be told.
  Duration limit() const {
    return settings_.report_after > Duration{} ? settings_.report_after : settings_.fail_after;
  }
  Duration timeout_with_rank_0() const;
  void merge(Standing& into, const Standing& from) const;
  void conclude();
  void put_into_words();
  bool answers_matter(const Asked& asked, const Standing& standing);
  std::string words_of(const std::vector<const Noticed*>& stalled, const Standing& standing, Time now) const;
  // The awaited ranks and their activity, one to a line.
  std::string missing_in_words(const Standing& standing) const;

  const TreeNode node_;
  Settings settings_;
  std::map<Key, Noticed> noticed_;
  std::optional<Round> round_;
  std::uint32_t next_number_ = 1;
  Time now_{};
  std::vector<Envelope> outgoing_;
  std::vector<std::string> reports_;
  std::vector<Missing> missing_;
};

}  // namespace rueda
