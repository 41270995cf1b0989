// SPDX-License-Identifier: Apache-2.0
// Requests seen before, by id: what lets a Report say a whole request in one bit.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "core/control/messages/plan.h"

namespace rueda {

// Purpose: tells which Request each cache id stands for. The cache depends on the Plans only. Each lookup
// passes the number of the last applied Plan, and ignores later Plans. So Negotiators of one process may
// share a cache. An id that a Plan has ended stays readable until `forget`, for bits that were
// sent before. Owned by a Negotiator, or shared by those of a simulation.
class RequestCache {
 public:
  // Learns what a Plan says; again has no effect.
  void apply(const Plan& plan);

  // Puts requests, offsets and size into a Plan as it was received, the next after Plan `at`. False when it
  // names an id that no Plan has given.
  bool resolve(Plan& plan, std::uint64_t at) const;

  // The id under which `request` may be sent after Plan `at`; 0: none. `likely`: one of the same key, or 0.
  CacheId find(const SharedRequest& request, std::uint64_t at, CacheId likely = 0) const;
  // The id of `key` after Plan `at`, whatever it stands for; 0: none.
  CacheId current(KeyView key, std::uint64_t at) const;
  // Ids from here on were never given.
  CacheId end_of_ids() const { return static_cast<CacheId>(pages_.size() * kPage); }
  // The request of an id that some Plan up to `at` gave; null if none, or if it is forgotten.
  const SharedRequest& request(CacheId id, std::uint64_t at) const;
  // Whether Plan `at` or one before has ended the id.
  bool ended(CacheId id, std::uint64_t at) const;

  // No bit sent before Plan `number` was applied can come any more.
  void forget(std::uint64_t number);

 private:
  static constexpr CacheId kPage = 256;
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  struct Entry {
    SharedRequest request;
    std::uint64_t given = kNever;  // by which Plan
    std::uint64_t ended = kNever;
  };
  using Page = std::vector<Entry>;

  const Entry* entry(CacheId id) const;
  Entry& make_entry(CacheId id);

  std::vector<Page> pages_;                               // by id / kPage; a page without entries is empty
  ByKey<std::vector<CacheId>> ids_;                       // ascending; more than one in a shared cache
  std::unordered_map<const Request*, CacheId> same_;      // where a request is the cached one itself
  std::vector<std::pair<std::uint64_t, CacheId>> ended_;  // by Plan, not forgotten yet
};

}  // namespace rueda
