// SPDX-License-Identifier: Apache-2.0
// Counts, for each cache id, which contributors of a node have reported it: the way of nearly every tensor.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/time.h"
#include "core/control/messages/id_set.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: a table of bits, contributor by id, and how many bits each id has. How many an id needs is asked
// for once and remembered; ids that cannot be counted (`kElsewhere`) are handed on bit by bit. Owned by a
// Negotiator. Cost: a few operations for each bit that is added.
class CachedReadiness {
 public:
  static constexpr std::uint16_t kElsewhere = 0xffff;

  explicit CachedReadiness(std::size_t contributors) : contributors_(contributors) {}

  // Adds the bits of `contributor`. needed(id): how many contributors make the id complete, or kElsewhere;
  // complete(id, since); elsewhere(id). False when the contributor had reported one of them already.
  template <class Needed, class Complete, class Elsewhere>
  bool add(std::size_t contributor, const IdSet& ids, Time now, Needed needed, Complete complete,
           Elsewhere elsewhere) {
    for (const IdSet::Word& word : ids.words()) {
      if (!add_word(contributor, word, now, needed, complete, elsewhere)) return false;
    }
    return true;
  }

  // Takes the bits of an id out of the table; who had reported it, and since when.
  struct Open {
    RankSet contributors;
    Time since;
  };
  Open take(CacheId id);
  // The next bit of the id asks again how many it needs.
  void ask_again(CacheId id);
  void ask_again();  // each id's

  // Ids with some bits, not all.
  std::size_t open() const { return open_; }
  std::vector<CacheId> open_ids() const;
  Open look(CacheId id) const;

 private:
  static constexpr std::uint32_t kPage = 256, kWords = kPage / 64;
  using Bits = std::array<std::uint64_t, kWords>;
  struct Page {
    std::array<std::uint16_t, kPage> count{};
    std::array<std::uint16_t, kPage> needed{};  // 0: ask
    std::array<Time, kPage> since{};
    std::vector<Bits> reported;  // by contributor
  };

  Page& page_of(std::uint32_t number) {
    if (number >= pages_.size()) pages_.resize(number + 1);
    if (!pages_[number]) {
      pages_[number] = std::make_unique<Page>();
      pages_[number]->reported.resize(contributors_);
    }
    return *pages_[number];
  }
  const Page* existing_page(CacheId id) const {
    return id / kPage < pages_.size() ? pages_[id / kPage].get() : nullptr;
  }

  template <class Needed, class Complete, class Elsewhere>
  bool add_word(std::size_t contributor, const IdSet::Word& word, Time now, Needed& needed,
                Complete& complete, Elsewhere& elsewhere) {
    Page& page = page_of(word.index / kWords);
    std::uint64_t& reported = page.reported[contributor][word.index % kWords];
    if ((reported & word.bits) != 0) return false;
    std::uint64_t finished = 0;
    for (std::uint64_t bits = word.bits; bits != 0; bits &= bits - 1) {
      const auto position = static_cast<std::uint32_t>(std::countr_zero(bits));
      const CacheId id = word.index * 64 + position;
      const std::uint32_t i = id % kPage;
      if (page.needed[i] == 0) page.needed[i] = needed(id);
      if (page.needed[i] == kElsewhere) {
        elsewhere(id);
        continue;
      }
      const std::uint64_t bit = std::uint64_t{1} << position;
      reported |= bit;
      if (page.count[i]++ == 0) {
        page.since[i] = now;
        ++open_;
      }
      if (page.count[i] < page.needed[i]) continue;
      page.count[i] = 0;
      --open_;
      finished |= bit;
    }
    if (finished == 0) return true;
    for (Bits& each : page.reported) each[word.index % kWords] &= ~finished;
    const IdSet::Word done{word.index, finished};
    for (std::uint64_t bits = done.bits; bits != 0; bits &= bits - 1) {
      const CacheId id = done.index * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
      complete(id, page.since[id % kPage]);
    }
    return true;
  }

  std::size_t contributors_;
  std::size_t open_ = 0;
  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace rueda
