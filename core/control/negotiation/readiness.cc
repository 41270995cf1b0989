// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/readiness.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/control/negotiation/call_mismatch.h"

namespace rueda {

void Readiness::add(Contributor contributor, RequestOfRanks asked) {
  contributors_.add(RankSet::of(contributor));
  reported_.add(asked.ranks);
  auto same = std::ranges::find_if(
      requests_, [&](const RequestOfRanks& other) { return compatible(*other.request, *asked.request); });
  if (same != requests_.end()) {
    same->ranks.add(asked.ranks);
    // A join carries the last rank that joined; one tensor that lies elsewhere is enough for all.
    if (asked.request->operation == Operation::join || any_elsewhere(*asked.request))
      same->request = std::move(asked.request);
  } else {
    requests_.push_back(std::move(asked));
  }
}

Status Readiness::mismatch() const {
  constexpr std::size_t kShown = 4;
  // The request of the lowest rank comes first, so that the words do not depend on who was faster.
  std::vector<const RequestOfRanks*> sorted;
  for (const RequestOfRanks& asked : requests_) sorted.push_back(&asked);
  std::ranges::sort(sorted, {}, [](const RequestOfRanks* asked) { return asked->ranks.first(); });
  if (std::optional<std::string> of_calls = mismatch_of_calls(sorted))
    return Status::mismatch(std::move(*of_calls));
  const RequestOfRanks& first = *sorted.front();
  const Difference two = difference(*first.request, *sorted[1]->request);
  std::string words = fmt::format("{}: the ranks differ in {}: {} asked for {}", title(*first.request),
                                  two.field, to_string(first.ranks), two.first);
  for (std::size_t i = 1; i < std::min(kShown, sorted.size()); ++i) {
    const Difference other = difference(*first.request, *sorted[i]->request);
    words += other.field == two.field ? fmt::format(", {} for {}", to_string(sorted[i]->ranks), other.second)
                                      : fmt::format(", {} for {} {} (not {})", to_string(sorted[i]->ranks),
                                                    other.field, other.second, other.first);
  }
  if (sorted.size() > kShown) words += fmt::format(", and {} requests more", sorted.size() - kShown);
  const bool of_group = two.field.ends_with("in its group");
  words += fmt::format(". Submit '{}' with the same {} on every rank, or under different names.",
                       first.request->name, of_group ? "others in its group" : two.field);
  return Status::mismatch(std::move(words));
}

}  // namespace rueda
