// SPDX-License-Identifier: Apache-2.0
// Who keeps the others waiting, and what they are doing: asked for as soon as something waits long.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/control/message.h"
#include "core/control/transport.h"
#include "core/control/tree.h"

namespace rueda {

// Purpose: one node's part of stall reports. Rank 0 hears of a stalled operation (from its own tallies, or by
// a Stall from below), asks the whole tree once (Inquiry), and puts the answers into words; each node asks
// its children, adds itself, and does not wait for a child longer than the Inquiry's patience. Pure, owned by
// a Negotiator.
class StallInspector {
 public:
  // What this rank says of itself.
  struct OwnState {
    bool member = false;   // of the process set
    bool waiting = false;  // has submitted it
    std::string words;     // else: who and where it is, what it did last, what it is doing
  };
  struct Settings {
    Duration report_after{};  // 0: never
    Duration fail_after{};    // 0: never
    std::function<OwnState(const Key&)> own_state;
    std::function<std::string(Rank)> place_of;  // "process 4711 on host", asked on rank 0 only
  };

  StallInspector(const TreeNode& node, Settings settings);

  bool on() const { return settings_.report_after > Duration{} || settings_.fail_after > Duration{}; }
  // When an operation that is incomplete since `since` should be looked at again.
  bool overdue(Time since, Time now) const;

  // An operation waits for longer than `report_after`. Each occurrence counts once: `since` tells them apart.
  void notice(const SharedRequest& request, Time since, Time now);
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
  void tick(Time now);

  std::vector<Envelope> take_outgoing() { return std::exchange(outgoing_, {}); }
  // At rank 0: reports in words, one for each set of operations with the same missing ranks.
  std::vector<std::string> take_reports() { return std::exchange(reports_, {}); }
  // At rank 0: why the job must end, once something has waited for `fail_after`.
  std::optional<Status> verdict(Time now) const;
  std::optional<Time> due() const;

 private:
  struct Noticed {
    SharedRequest request;
    Time since;
    Time asked_after;  // when to ask: others may be noticed in the meantime
    bool asked = false;
    std::string words;  // once answered
  };
  struct Round {  // an Inquiry under way
    Inquiry inquiry;
    Time until;
    std::set<Rank> open;  // children that have not answered
    std::vector<Standing> standings;
  };

  void begin(Inquiry inquiry, Time now);
  void merge(Standing& into, const Standing& from) const;
  void conclude();
  void put_into_words();
  std::string words_of(const std::vector<const Noticed*>& stalled, const Standing& standing, Time now) const;

  const TreeNode node_;
  Settings settings_;
  std::map<Key, Noticed> noticed_;
  std::optional<Round> round_;
  std::uint32_t next_number_ = 1;
  Time now_{};
  std::vector<Envelope> outgoing_;
  std::vector<std::string> reports_;
};

}  // namespace rueda
