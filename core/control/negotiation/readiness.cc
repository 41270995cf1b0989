// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/readiness.h"

#include <fmt/format.h>

#include <algorithm>

namespace rueda {

void Readiness::add(Contributor contributor, Wish wish) {
  contributors_.add(RankSet::of(contributor));
  reported_.add(wish.ranks);
  auto same =
      std::ranges::find_if(wishes_, [&](const Wish& w) { return compatible(*w.request, *wish.request); });
  if (same != wishes_.end()) {
    same->ranks.add(wish.ranks);
    // A join carries the last rank that joined; one tensor that lies elsewhere is enough for all.
    if (wish.request->operation == Operation::join || any_elsewhere(*wish.request))
      same->request = std::move(wish.request);
  } else {
    wishes_.push_back(std::move(wish));
  }
}

Status Readiness::mismatch() const {
  constexpr std::size_t kShown = 4;
  // The wish of the lowest rank comes first, so that the words do not depend on who was faster.
  std::vector<const Wish*> sorted;
  for (const Wish& wish : wishes_) sorted.push_back(&wish);
  std::ranges::sort(sorted, {}, [](const Wish* wish) { return wish->ranks.first(); });
  const Wish& first = *sorted.front();
  const Difference two = difference(*first.request, *sorted[1]->request);
  std::string words = fmt::format("{}: the ranks differ in {}: {} asked for {}", title(*first.request),
                                  two.field, to_string(first.ranks), two.first);
  for (std::size_t i = 1; i < std::min(kShown, sorted.size()); ++i) {
    const Difference other = difference(*first.request, *sorted[i]->request);
    words += other.field == two.field ? fmt::format(", {} for {}", to_string(sorted[i]->ranks), other.second)
                                      : fmt::format(", {} for {} {} (not {})", to_string(sorted[i]->ranks),
                                                    other.field, other.second, other.first);
  }
  if (sorted.size() > kShown) words += fmt::format(", and {} wishes more", sorted.size() - kShown);
  const bool of_group = two.field.ends_with("in its group");
  words += fmt::format(". Submit '{}' with the same {} on every rank, or under different names.",
                       first.request->name, of_group ? "others in its group" : two.field);
  return Status::mismatch(std::move(words));
}

}  // namespace rueda
