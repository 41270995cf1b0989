// SPDX-License-Identifier: Apache-2.0
// Rank 0's part of the request cache: it alone gives ids and ends them.
#pragma once

#include <list>
#include <unordered_map>

#include "core/control/messages/plan.h"

namespace rueda {

// Purpose: gives an id to each request that is called, and ends ids that are not worth their room: of names
// that now mean something else, of process sets that are gone, and of requests that were not called again for
// long. "Long" grows with the number of requests that do come again, so a model larger than `least` never
// drives its own requests out; names used once pass through. Barriers and messages, most of which have names
// of their own, get none. Owned by the Coordinator at rank 0.
class CachePolicy {
 public:
  // Requests are kept for `least` calls of others at least; 0: nothing gets an id.
  explicit CachePolicy(std::int64_t least) : least_(least) {}

  // Sets ids and in_full of the Plan's tensors, and which ids end with it.
  void give_ids(Plan& plan);
  // Ids of a set that is removed by `plan`.
  void end_set(ProcessSetId set, Plan& plan);

 private:
  struct Kept {
    CacheId id = 0;
    SharedRequest request;
    std::uint64_t called = 0;  // calls_ at its last call
    bool again = false;        // called more than once
  };
  using List = std::list<Kept>;

  void give_id(PlanTensor& tensor, Plan& plan);
  void call_again(List::iterator kept, PlanTensor& tensor);
  void end(List::iterator kept, Plan& plan);

  std::int64_t least_;
  CacheId next_ = 1;
  std::uint64_t calls_ = 0;
  std::int64_t again_ = 0;  // how many of them
  List kept_;               // the last called first
  ByKey<List::iterator> by_key_;
  std::unordered_map<const Request*, List::iterator> same_;  // where a request is the one that is kept itself
};

}  // namespace rueda
