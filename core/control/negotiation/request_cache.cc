// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/request_cache.h"

#include <algorithm>

namespace rueda {
namespace {

const SharedRequest kNone;

}  // namespace

const RequestCache::Entry* RequestCache::entry(CacheId id) const {
  const std::size_t page = id / kPage;
  if (page >= pages_.size() || pages_[page].empty()) return nullptr;
  return &pages_[page][id % kPage];
}

RequestCache::Entry& RequestCache::make_entry(CacheId id) {
  const std::size_t page = id / kPage;
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (pages_[page].empty()) pages_[page].resize(kPage);
  return pages_[page][id % kPage];
}

void RequestCache::apply(const Plan& plan) {
  for (CacheId id : plan.evicted) {
    const Entry* known = entry(id);
    if (known == nullptr || known->given == kNever || known->ended != kNever) continue;
    make_entry(id).ended = plan.number;
    ended_.emplace_back(plan.number, id);
  }
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.id == 0 || !tensor.in_full) continue;
    Entry& fresh = make_entry(tensor.id);
    if (fresh.given != kNever) continue;
    fresh = {tensor.request, plan.number, kNever};
    same_[tensor.request.get()] = tensor.id;
    ids_[key_of(*tensor.request)].push_back(tensor.id);
  }
}

bool RequestCache::resolve(Plan& plan, std::uint64_t at) const {
  for (PlanTensor& tensor : plan.tensors) {
    if (tensor.in_full) continue;
    tensor.request = request(tensor.id, at);
    if (!tensor.request) return false;
  }
  take_terms(plan, *plan.tensors.front().request);
  plan.buffer_bytes = 0;
  for (PlanTensor& tensor : plan.tensors) assign_offset(plan, tensor);
  return can_be(plan);
}

CacheId RequestCache::current(KeyView key, std::uint64_t at) const {
  auto found = ids_.find(key);
  if (found == ids_.end()) return 0;
  for (auto id = found->second.rbegin(); id != found->second.rend(); ++id) {
    const Entry& known = *entry(*id);
    if (known.given <= at) return known.ended > at ? *id : 0;
  }
  return 0;
}

CacheId RequestCache::find(const SharedRequest& wanted, std::uint64_t at, CacheId likely) const {
  if (any_elsewhere(*wanted)) return 0;
  if (likely != 0) {
    const Entry* known = entry(likely);
    const bool in_use = known != nullptr && known->given <= at && at < known->ended;
    if (in_use && compatible(*known->request, *wanted)) return likely;
  }
  if (auto same = same_.find(wanted.get()); same != same_.end()) {
    const Entry& known = *entry(same->second);
    if (known.given <= at && at < known.ended) return same->second;
  }
  const CacheId id = current(key_view_of(*wanted), at);
  return id != 0 && compatible(*entry(id)->request, *wanted) ? id : 0;
}

const SharedRequest& RequestCache::request(CacheId id, std::uint64_t at) const {
  const Entry* known = entry(id);
  return known != nullptr && known->given <= at ? known->request : kNone;
}

bool RequestCache::ended(CacheId id, std::uint64_t at) const {
  const Entry* known = entry(id);
  return known != nullptr && known->ended <= at;
}

void RequestCache::forget(std::uint64_t number) {
  auto late = std::ranges::find_if(ended_, [&](const auto& end) { return end.first > number; });
  for (auto end = ended_.begin(); end != late; ++end) {
    Page& page = pages_[end->second / kPage];
    Entry& old = page[end->second % kPage];
    auto ids = ids_.find(key_view_of(*old.request));
    std::erase(ids->second, end->second);
    if (ids->second.empty()) ids_.erase(ids);
    if (auto same = same_.find(old.request.get()); same != same_.end() && same->second == end->second)
      same_.erase(same);
    old = {};
    const bool used = std::ranges::any_of(page, [](const Entry& e) { return e.given != kNever; });
    if (!used) Page().swap(page);
  }
  ended_.erase(ended_.begin(), late);
}

}  // namespace rueda
