// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/cached_readiness.h"

namespace rueda {

CachedReadiness::Open CachedReadiness::look(CacheId id) const {
  const Page* page = existing_page(id);
  if (page == nullptr || page->count[id % kPage] == 0) return {};
  Open open{{}, page->since[id % kPage]};
  for (std::size_t c = 0; c < contributors_; ++c) {
    if ((page->reported[c][id % kPage / 64] >> (id % 64) & 1) != 0)
      open.contributors.add(RankSet::of(static_cast<Rank>(c)));
  }
  return open;
}

CachedReadiness::Open CachedReadiness::take(CacheId id) {
  Open open = look(id);
  if (open.contributors.empty()) return open;
  Page& page = *pages_[id / kPage];
  for (Bits& each : page.reported) each[id % kPage / 64] &= ~(std::uint64_t{1} << (id % 64));
  page.count[id % kPage] = 0;
  --open_;
  return open;
}

void CachedReadiness::ask_again(CacheId id) {
  if (existing_page(id) != nullptr) pages_[id / kPage]->needed[id % kPage] = 0;
}

void CachedReadiness::ask_again() {
  for (auto& page : pages_) {
    if (page) page->needed.fill(0);
  }
}

std::vector<CacheId> CachedReadiness::open_ids() const {
  std::vector<CacheId> ids;
  if (open_ == 0) return ids;
  for (std::size_t number = 0; number < pages_.size(); ++number) {
    if (!pages_[number]) continue;
    for (std::uint32_t i = 0; i < kPage; ++i) {
      if (pages_[number]->count[i] != 0) ids.push_back(static_cast<CacheId>(number * kPage + i));
    }
  }
  return ids;
}

}  // namespace rueda
