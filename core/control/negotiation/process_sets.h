// SPDX-License-Identifier: Apache-2.0
// The process sets, as one node of the control tree sees them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/control/negotiation/tree.h"
#include "rueda/rank_set.h"

namespace rueda {

// Whom a node hears from: itself (0), or its children (1, 2, ...). Kept as a RankSet of these numbers.
using Contributor = Rank;
inline constexpr Contributor kSelf = 0;

// Purpose: for each set its members, who of the contributors has members below it, and which of those will
// not contribute any more because all of them have joined or departed. Owned by a Negotiator.
class ProcessSets {
 public:
  struct View {
    std::shared_ptr<const RankSet> members;
    RankSet here;             // members of this node's subtree
    RankSet contributors;     // with members below
    RankSet joined;           // of the contributors, those whose members have all joined
    RankSet gone;             // those whose members have all departed
    bool departures = false;  // of members below
    // Whether every contributor stands for all its members.
    bool regular = true;
  };

  ProcessSets(const TreeNode& node, Rank size);

  void add(ProcessSetId id, RankSet members);
  void remove(ProcessSetId id) { views_.erase(id); }
  // Null when no Plan has added the set, or one has removed it.
  const View* find(ProcessSetId id) const;
  // The id of the set with these members; nothing if there is none.
  const ProcessSetId* with_members(const RankSet& members) const;

  void join(ProcessSetId id, Contributor contributor);
  void end_join(ProcessSetId id);
  void depart(const RankSet& ranks);
  const RankSet& departed() const { return departed_; }

  // The members among the ranks below a contributor, itself included.
  RankSet members_below(const View& view, Contributor contributor) const {
    return *view.members & below_[contributor];
  }

 private:
  void depart(View& view, const RankSet& ranks);

  std::vector<RankSet> below_;  // by contributor
  RankSet subtree_;
  RankSet departed_;
  std::map<ProcessSetId, View> views_;
};

}  // namespace rueda
