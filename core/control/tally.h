// SPDX-License-Identifier: Apache-2.0
// Who of a subtree has asked for one tensor, and whether they asked for the same.
#pragma once

#include <vector>

#include "core/control/message.h"

namespace rueda {

// Purpose: collects the wishes under one name at one node of the tree. A plain value inside a Negotiator.
class Tally {
 public:
  // A request equal to one seen before joins its ranks; requests that can be carried out together count as
  // equal.
  void add(Wish wish);

  const RankSet& reported() const { return reported_; }
  const std::vector<Wish>& wishes() const { return wishes_; }
  const Request& request() const { return wishes_.front().request; }
  bool agreed() const { return wishes_.size() == 1; }

  // Which field differs, who asked for what, and what to do. For a Tally that is not agreed.
  Status mismatch() const;

 private:
  std::vector<Wish> wishes_;
  RankSet reported_;
};

}  // namespace rueda
