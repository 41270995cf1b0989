// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/process_sets.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/control/messages/message_pair.h"

namespace rueda {

ProcessSets::ProcessSets(const TreeNode& node, Rank size) : subtree_(node.subtree), all_(0, size) {
  below_.push_back(RankSet::of(node.rank));
  below_.insert(below_.end(), node.child_subtrees.begin(), node.child_subtrees.end());
  add(kWorld, all_);
}

void ProcessSets::add(ProcessSetId id, RankSet members) { views_[id] = view_of(std::move(members)); }

ProcessSets::View ProcessSets::view_of(RankSet members) const {
  View view;
  view.here = members & subtree_;
  view.members = std::make_shared<const RankSet>(std::move(members));
  for (Contributor c = 0; c < static_cast<Contributor>(below_.size()); ++c) {
    if (!members_below(view, c).empty()) view.contributors.add(RankSet::of(c));
  }
  depart(view, departed_);
  return view;
}

const ProcessSets::View* ProcessSets::find(ProcessSetId id) const {
  if (const auto found = views_.find(id); found != views_.end()) return &found->second;
  const std::optional<MessagePair> pair = MessagePair::of(id);
  if (!pair || !all_.contains(pair->members())) return nullptr;
  return &views_.emplace(id, view_of(pair->members())).first->second;
}

const ProcessSetId* ProcessSets::with_members(const RankSet& members) const {
  auto same = std::ranges::find_if(views_, [&](const auto& view) {
    return *view.second.members == members && !MessagePair::of(view.first);
  });
  return same == views_.end() ? nullptr : &same->first;
}

void ProcessSets::join(ProcessSetId id, Contributor contributor) {
  auto found = views_.find(id);
  if (found == views_.end()) return;
  found->second.joined.add(RankSet::of(contributor));
  found->second.regular = false;
}

void ProcessSets::end_join(ProcessSetId id) {
  auto found = views_.find(id);
  if (found == views_.end()) return;
  found->second.joined = {};
  found->second.regular = !found->second.departures;
}

void ProcessSets::depart(const RankSet& ranks) {
  departed_.add(ranks);
  for (auto& [id, view] : views_) depart(view, ranks);
}

// Looks only at those contributors from whom `ranks` come: a job of many ranks ends by many departures.
void ProcessSets::depart(View& view, const RankSet& ranks) const {
  if ((ranks & view.here).empty()) return;
  view.departures = true;
  view.regular = false;
  for (Contributor c = 0; c < static_cast<Contributor>(below_.size()); ++c) {
    if (view.gone.contains(c) || (ranks & below_[c]).empty()) continue;
    const RankSet members = members_below(view, c);
    if (!members.empty() && departed_.contains(members)) view.gone.add(RankSet::of(c));
  }
}

}  // namespace rueda
