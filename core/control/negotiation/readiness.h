// SPDX-License-Identifier: Apache-2.0
// The ranks of a subtree that have asked for one tensor, and the agreement of their requests.
#pragma once

#include <utility>
#include <vector>

#include "core/control/messages/control_message.h"
#include "core/control/negotiation/cached_readiness.h"
#include "core/control/negotiation/process_sets.h"

namespace rueda {

// Purpose: collects the requests under one key at one node of the tree: the way of what the cache does not
// know, of differing requests, and of sets from which ranks have joined or departed. A plain value in a
// Negotiator.
class Readiness {
 public:
  explicit Readiness(Time since) : since_(since) {}

  // A request equal to one seen before joins its ranks; requests that can be carried out together count as
  // equal.
  void add(Contributor contributor, RequestOfRanks asked);

  const RankSet& contributors() const { return contributors_; }
  const RankSet& reported() const { return reported_; }
  const std::vector<RequestOfRanks>& requests() const { return requests_; }
  std::vector<RequestOfRanks> take_requests() { return std::move(requests_); }
  const SharedRequest& request() const { return requests_.front().request; }
  bool agreed() const { return requests_.size() == 1; }
  Time since() const { return since_; }

  // Names the field that differs, the request of each rank and the remedy. Only if agreed() is false.
  Status mismatch() const;

 private:
  Time since_;
  std::vector<RequestOfRanks> requests_;
  RankSet contributors_;
  RankSet reported_;
};

}  // namespace rueda
