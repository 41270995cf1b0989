// SPDX-License-Identifier: Apache-2.0
// The start of a job: every rank introduces itself, and learns who is there.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/control/bootstrap/static_process_sets.h"
#include "core/control/messages/control_message.h"
#include "core/control/messages/transport.h"
#include "core/control/negotiation/tree.h"

namespace rueda {

// `process` and `how` may be empty.
Status lost_during_start(Rank rank, const std::string& process, const std::string& how);

// Purpose: one rank's node of the control tree before the Negotiator. Introductions go up as they come. Rank
// 0 welcomes all ranks with the list of hosts. If each rank reaches rank 0 only, rank 0 sends the list to its
// children in the tree by host. Rank 0 refers every other rank to its parent in that tree. Pure, as the
// Negotiator is. Owned by a ProgressEngine.
class Bootstrap {
 public:
  // `process_sets`: those that this rank gave to init(). `radix`: of the tree by rank number; `size` where
  // each rank reaches rank 0 only.
  Bootstrap(Introduction own, Rank size, RankLists process_sets = {}, Rank radix = tree::kRadix);

  void receive(Rank from, ConstBytes bytes);
  // Waiting has lasted too long. Rank 0 tells everybody which ranks are missing; others name the rank that
  // they waited for. `obstacle`: why it may not be reached, or empty.
  void expire(double seconds, const std::string& obstacle = "");

  // That rank's process has ended, or has left, before the start was over. `how`: "was killed by signal 9",
  // or empty.
  void lose(Rank rank, const std::string& how = "");

  std::vector<Envelope> take_outgoing();
  // Rank 0's word that the Welcome comes from another rank, once.
  std::optional<Referral> take_referral() { return std::exchange(referral_, std::nullopt); }
  // Once there: how the start ended, and who is where.
  const std::optional<Welcome>& welcome() const { return welcome_; }
  // At rank 0: settings in which ranks differ, in words.
  std::vector<std::string> differing_settings() const;

 private:
  void conclude();
  Status mismatch() const;
  void welcome_all(const Welcome& welcome);
  void finish(Welcome welcome);

  Introduction own_;
  const RankLists process_sets_;
  Rank size_;
  TreeNode node_;                                   // by rank number: nobody knows yet who is where
  Hello unsent_;                                    // for the parent
  std::vector<std::optional<Introduction>> heard_;  // at rank 0, by rank
  RankSet missing_;                                 // of the subtree
  Rank awaited_;                                    // it will send the Welcome
  std::optional<Referral> referral_;
  std::vector<Envelope> outgoing_;
  std::optional<Welcome> welcome_;
};

}  // namespace rueda
