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

// Purpose: knows the members of each set, and the contributors with members below them. Marks contributors
// that will add nothing more, since all their members have joined or departed. Owned by a Negotiator.
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
  // Null when no Plan has added the set, or one has removed it. The set of a MessagePair is there from its
  // first use on.
  const View* find(ProcessSetId id) const;
  // The id of the set with these members, which is not that of a MessagePair; null if there is none.
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
  View view_of(RankSet members) const;
  void depart(View& view, const RankSet& ranks) const;

  std::vector<RankSet> below_;  // by contributor
  RankSet subtree_;
  RankSet departed_;
  RankSet all_;
  mutable std::map<ProcessSetId, View> views_;  // find() adds those of pairs
};

}  // namespace rueda
