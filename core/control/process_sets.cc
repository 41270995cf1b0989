// SPDX-License-Identifier: Apache-2.0
#include "core/control/process_sets.h"

#include <algorithm>

namespace rueda {

ProcessSets::ProcessSets(const TreeNode& node, Rank size) : subtree_(node.subtree) {
  below_.push_back(RankSet::of(node.rank));
  below_.insert(below_.end(), node.child_subtrees.begin(), node.child_subtrees.end());
  add(kWorld, RankSet(0, size));
}

void ProcessSets::add(ProcessSetId id, RankSet members) {
  View& view = views_[id];
  view = {};
  view.here = members & subtree_;
  view.members = std::make_shared<const RankSet>(std::move(members));
  for (Contributor c = 0; c < static_cast<Contributor>(below_.size()); ++c) {
    if (!members_below(view, c).empty()) view.contributors.add(RankSet::of(c));
  }
  update(view);
}

const ProcessSets::View* ProcessSets::find(ProcessSetId id) const {
  auto found = views_.find(id);
  return found == views_.end() ? nullptr : &found->second;
}

const ProcessSetId* ProcessSets::with_members(const RankSet& members) const {
  auto same = std::ranges::find_if(views_, [&](const auto& view) { return *view.second.members == members; });
  return same == views_.end() ? nullptr : &same->first;
}

void ProcessSets::join(ProcessSetId id, Contributor contributor) {
  auto found = views_.find(id);
  if (found == views_.end()) return;
  found->second.joined.add(RankSet::of(contributor));
  update(found->second);
}

void ProcessSets::end_join(ProcessSetId id) {
  auto found = views_.find(id);
  if (found == views_.end()) return;
  found->second.joined = {};
  update(found->second);
}

void ProcessSets::depart(const RankSet& ranks) {
  departed_.add(ranks);
  for (auto& [id, view] : views_) update(view);
}

void ProcessSets::update(View& view) {
  view.gone = {};
  if (!departed_.empty()) {
    for (Contributor c = 0; c < static_cast<Contributor>(below_.size()); ++c) {
      const RankSet members = members_below(view, c);
      if (!members.empty() && departed_.contains(members)) view.gone.add(RankSet::of(c));
    }
  }
  view.regular = view.joined.empty() && (view.here & departed_).empty();
}

}  // namespace rueda
